// A program that already compiles the bodies of Asio, once, as Asio's own documentation says.

#include <boost/asio/impl/src.hpp>

#ifdef WITH_TLS
#include <boost/asio/ssl/impl/src.hpp>
#endif
