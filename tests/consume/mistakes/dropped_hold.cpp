// says: nodiscard
#include <conch/conch.hpp>

#include <boost/asio/use_future.hpp>

void f(conch::mutex& m) { m.async_acquire(boost::asio::use_future).get(); }
