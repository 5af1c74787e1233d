// libretrovane: the functions of retrovane.h, out of line.
//
// The header has the code. Deliberately absent: state, initialisation, any library
// but libc's errno.
#define RETROVANE_IMPLEMENTATION
#include "retrovane.h"
