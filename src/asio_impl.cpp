// The one place where the bodies of Asio are compiled (BOOST_ASIO_SEPARATE_COMPILATION). In the
// static library this is an object file of its own: a program that already compiles Asio for
// itself never pulls it in.
//
// They are compiled as what they are in header-only Asio: inline functions, all of them emitted. A program may contain
// other code with header-only Asio. Strong definitions beside its inline ones would give the program two of each static
// variable inside a function: an error category (`ec == error::eof` would be false across the two), the state of the
// signal handlers, and more. They leave a shared library, since programs call them: one copy of Asio serves all. (Asio
// gives its classes default visibility by itself.) Nothing else that changes Asio's own functions may be defined here:
// BOOST_ASIO_NO_DEPRECATED makes asio_handler_allocate another function under the same name, which header-only code
// then calls for its memory.
#ifdef BOOST_ASIO_NO_DEPRECATED
#error "asio_handler_allocate would be another function than that of header-only code in the same program"
#endif
// Clang emits of a constructor or destructor that is inline and used only the variant for bases, and programs call the
// other one: there they are strong.
#if defined(__clang__) && !defined(BOOST_ASIO_DECL)
#define BOOST_ASIO_DECL __attribute__((visibility("default")))
#elif defined(__GNUC__) && !defined(BOOST_ASIO_DECL)
#define BOOST_ASIO_DECL inline __attribute__((used, visibility("default")))
#endif

#include <boost/asio/impl/src.hpp>

#if CONCH_TLS
#include <boost/asio/ssl/impl/src.hpp>
#endif
