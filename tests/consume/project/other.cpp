// Somebody else's code in the same program: plain header-only Asio, no definition of conch's.

#include <boost/asio.hpp>

#include <chrono>

boost::system::error_code others_end_of_file() { return boost::asio::error::eof; }

boost::asio::io_context& others_context() {
  static boost::asio::io_context context;
  return context;
}

// How many of its handlers ran.
int others_work() {
  boost::asio::io_context context;
  int ran = 0;
  boost::asio::steady_timer timer{context, std::chrono::milliseconds{1}};
  timer.async_wait([&](boost::system::error_code) {
    ++ran;
    boost::asio::post(context, [&ran] { ++ran; });
  });
  boost::asio::strand<boost::asio::io_context::executor_type> strand{context.get_executor()};
  boost::asio::post(strand, [&ran, &strand] { ran += strand.running_in_this_thread() ? 1 : 0; });
  context.run();
  return ran;
}
