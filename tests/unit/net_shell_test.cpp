// What src/net/shell does for every transport: the handlers of a stream that was closed find nothing to do any more,
// however late they come.
#include "net/shell.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace conch::net {
namespace {

using texts = std::vector<std::string>;

struct no_client final : host {
  std::shared_ptr<void> keep() override { return kept; }
  void log(log_level, std::string_view) override {}
  void enter_with(input& i) override { i.apply(time_point{}); }
  void run(input&& i) override {
    i.apply(time_point{});
    i.carry_out();
  }

  std::shared_ptr<void> kept = std::make_shared<int>();
};

/// One connection after another, with the handlers that a transport has: of a timer, a read, a look-up of a name.
class transport : public shell<transport> {
 public:
  transport(no_client& h, asio::io_context& on)
      : shell{h, on.get_executor()},
        context_{on},
        timer_{on},
        near_{on},
        far_{on} {
    asio::local::connect_pair(near_, far_);
  }

  /// Begins the connection with that name. All of them are due.
  void begin(std::string const& connection) {
    timer_.expires_after(std::chrono::nanoseconds{0});
    timer_.async_wait(bound([this, connection](boost::system::error_code ec) {
      heard.push_back(connection + (ec ? ": cancelled timer" : ": timer"));
    }));
    near_.async_read_some(asio::buffer(read_), bound([this, connection](boost::system::error_code ec, std::size_t) {
                            heard.push_back(connection + (ec ? ": end of read" : ": read"));
                          }));
    asio::write(far_, asio::buffer("x", 1));
    asio::post(context_, bound([this, connection] { heard.push_back(connection + ": name"); }));
  }
  /// As a transport does when its machine says so; what has completed is still to be called.
  void close() {
    end_handlers();
    timer_.cancel();
    near_.cancel();
  }
  void carry_out() {}

  texts heard;

 private:
  asio::io_context& context_;
  asio::steady_timer timer_;
  asio::local::stream_protocol::socket near_, far_;
  std::array<char, 16> read_{};
};

texts sorted(texts all) {
  std::sort(all.begin(), all.end());
  return all;
}

TEST(TransportShell, HandlersOfAnOldConnectionThatComeLateDoNothing) {
  no_client client;
  asio::io_context context;
  transport t{client, context};
  // In the turn in which all three have completed, and before they are called.
  t.begin("old");
  asio::post(context, [&] {
    t.close();
    t.begin("new");
  });
  // The name of the old connection was looked up before: it is told first.
  context.run();
  EXPECT_EQ(sorted(t.heard), (texts{"new: name", "new: read", "new: timer", "old: name"}));
}

TEST(TransportShell, HandlersOfAnOldConnectionDoNothingThoughTheyHaveSucceeded) {
  no_client client;
  asio::io_context context;
  transport t{client, context};
  asio::post(context, [&] {
    t.begin("old");
    t.close();
    t.begin("new");
  });
  context.run();
  EXPECT_EQ(sorted(t.heard), (texts{"new: name", "new: read", "new: timer"}));
}

TEST(TransportShell, EachOfManyConnectionsHearsOnlyItsOwn) {
  no_client client;
  asio::io_context context;
  transport t{client, context};
  for (int i = 0; i < 10; ++i) {
    t.begin(std::to_string(i));
    t.close();
  }
  context.run();
  EXPECT_EQ(t.heard, texts{});
}

TEST(TransportShell, HandlersKeepTheirClient) {
  no_client client;
  asio::io_context context;
  transport t{client, context};
  t.begin("one");
  std::weak_ptr<void> const kept = client.kept;
  client.kept.reset();
  EXPECT_FALSE(kept.expired());
  context.run();
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace conch::net
