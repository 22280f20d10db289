// says: nodiscard
#include <conch/conch.hpp>

#include <boost/asio/use_future.hpp>

void f(conch::reentrant_mutex& m, conch::owner const& me) { m.async_acquire(me, boost::asio::use_future).get(); }
