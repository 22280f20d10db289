// Uses the library the way another project does, and Asio beside it: the definitions that go with
// the compiled Asio have to arrive here, else this does not link.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <conch/version.hpp>

#include <iostream>

int main() {
  boost::asio::io_context context;
  bool ran = false;
  boost::asio::post(context, [&ran] { ran = true; });
  context.run();
  std::cout << "conch " << conch::version() << '\n';
  return ran && conch::version() == conch::version_string ? 0 : 1;
}
