// Included inside a class, in front of what is for the runtime alone. While an answer is compiled, another file of this
// name is found first: common/for_answers/common/runtime_access.hpp, which says "private".
public:
