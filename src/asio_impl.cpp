// The one place where the bodies of Asio are compiled (BOOST_ASIO_SEPARATE_COMPILATION). In the
// static library this is an object file of its own: a program that already compiles Asio for
// itself never pulls it in.

#include <boost/asio/impl/src.hpp>

#if CONCH_TLS
#include <boost/asio/ssl/impl/src.hpp>
#endif
