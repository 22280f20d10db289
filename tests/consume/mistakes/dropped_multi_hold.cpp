// says: nodiscard
#include <conch/conch.hpp>

#include <boost/asio/use_future.hpp>

void f(conch::multi_lock& all) { all.async_acquire(boost::asio::use_future).get(); }
