// Tells a program that it runs a student's answer, for whose_code().
#include "common/support/json/whose_code.hpp"

static const lockstep::WhoseCode kCode("yours");
