// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/four_letters.hpp"

#include "base/asio_compat.hpp"
#include "base/readable.hpp"
#include "net/stream.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

namespace conch::zookeeper {

namespace {

using boost::system::error_code;

/// One step follows the other, until the server closes the connection.
class question {
 public:
  question(asio::io_context& context, address const& where, tls_config const& tls)
      : where_{where},
        stream_{context.get_executor(), where, tls} {
    stream_.async_resolve(where_, [this](error_code ec, net::stream::found_addresses const& found) {
      if (ec || found.empty()) return end("the name is not known");
      stream_.take(found);
      stream_.async_connect(where_, 0, [this](error_code wrong) { connected(wrong); });
    });
  }

  bool has_ended() const noexcept { return has_ended_; }
  self_description answer() const {
    return {where_.shown(), has_ended_ && trouble_.empty() ? text_ : std::string{}, readable(trouble_)};
  }

 private:
  void connected(error_code ec) {
    if (ec) return end(ec.message());
    stream_.connected();
    if (!where_.over_tls) return write();
    std::string warning;
    std::string const wrong = stream_.async_handshake(warning, [this](error_code failed) {
      if (failed) return end(stream_.words(failed));
      write();
    });
    if (!wrong.empty()) end(wrong);
  }

  void write() {
    stream_.async_write_some("srvr", [this](error_code ec, std::size_t) {
      if (ec) return end(stream_.words(ec));
      read();
    });
  }

  void read() {
    stream_.async_read_some(room_, [this](error_code ec, std::size_t size) {
      constexpr std::size_t most = 4096;
      text_.append(room_.data(), size);
      if (!ec && text_.size() < most) return read();
      end(text_.empty() ? "no answer" : "");
    });
  }

  void end(std::string const& trouble) {
    trouble_ = trouble;
    has_ended_ = true;
    stream_.close();
  }

  address const where_;
  net::stream stream_;
  std::array<char, 1024> room_{};
  std::string text_, trouble_ = "no answer in time";
  bool has_ended_ = false;
};

}  // namespace

std::vector<self_description> ask_each(std::vector<address> const& servers, tls_config const& tls, duration limit) {
  asio::io_context context{1};
  std::vector<std::unique_ptr<question>> asked;
  for (address const& one : servers) asked.push_back(std::make_unique<question>(context, one, tls));
  time_point const until = clock::now() + limit;
  auto const all_have_ended = [&] {
    return std::all_of(asked.begin(), asked.end(), [](auto const& one) { return one->has_ended(); });
  };
  while (!all_have_ended() && clock::now() < until && context.run_one_until(until) != 0) {
  }
  std::vector<self_description> all;
  for (auto const& one : asked) all.push_back(one->answer());
  return all;
}

}  // namespace conch::zookeeper
