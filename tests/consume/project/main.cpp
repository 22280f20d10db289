// Uses the library the way another project does, and Asio beside it: the definitions that go with the compiled Asio
// have to arrive here, else this does not link. Beside other.cpp, which has Asio by its headers only: the two work on
// one io_context and understand each other's errors. Its argument is the URL of a server; without one its locks are in
// memory.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/system/system_error.hpp>
#include <conch/conch.hpp>

#include <iostream>
#include <string>

boost::system::error_code others_end_of_file();
boost::asio::io_context& others_context();
int others_work();

namespace {

boost::asio::awaitable<void> lock_and_work(std::string url, int& passes) {
  auto const executor = co_await boost::asio::this_coro::executor;
  conch::client client{executor, url};
  conch::mutex m{client, "consumer"};
  for (int i = 0; i < 100; ++i) {
    conch::hold h = co_await m.async_acquire();
    if (others_work() == 3) ++passes;
    co_await h.async_release();
  }
}

/// A conch without TLS says so when the client is made, and what to do.
bool says_whether_it_has_tls() {
  boost::asio::io_context context;
  try {
    conch::client const client{context.get_executor(), "rediss://127.0.0.1"};
    return CONCH_TLS == 1;
  } catch (boost::system::system_error const& e) {
    std::cout << e.what() << '\n';
    return CONCH_TLS == 0 && e.code() == conch::errc::not_supported &&
           std::string{e.what()}.find("CONCH_TLS=ON") != std::string::npos;
  }
}

}  // namespace

int main(int argc, char** argv) {
  boost::asio::io_context& context = others_context();
  bool ran = false;
  auto const strand = boost::asio::make_strand(context);
  boost::asio::post(strand, [&ran, &strand] { ran = strand.running_in_this_thread(); });
  int passes = 0;
  boost::asio::co_spawn(context, lock_and_work(argc > 1 ? argv[1] : "memory://", passes), boost::asio::detached);
  context.run();
  bool const same_errors = others_end_of_file() == boost::asio::error::eof;
  std::cout << "conch " << conch::version() << ", " << passes << " passes, errors " << (same_errors ? "" : "not ")
            << "the same\n";
  return ran && passes == 100 && same_errors && says_whether_it_has_tls() && conch::version() == conch::version_string
             ? 0
             : 1;
}
