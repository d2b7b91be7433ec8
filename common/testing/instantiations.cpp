#define LOCKSTEP_ONCE template
#include "common/testing/instantiations.hpp"
