// What is true of this library, for programs to be compared with (conch/detail/agreement.hpp).
#include <conch/detail/agreement.hpp>

extern "C" {
void CONCH_AGREES_ON_BODIES() {}
void CONCH_AGREES_ON_RTTI() {}
void CONCH_AGREES_ON_THREADS() {}
void CONCH_AGREES_ON_TS_EXECUTORS() {}
void CONCH_AGREES_ON_TRACKING() {}
void CONCH_AGREES_ON_REACTOR() {}
void CONCH_AGREES_ON_BOOST() {}
}
