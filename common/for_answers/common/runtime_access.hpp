// Stands before common/runtime_access.hpp in the include path of answers.
private:
