// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/transport.hpp"
#include "servers/memory/store.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace conch::memory {

/// A connection to a store in this process. Answers and pushes go through the executor: they arrive as late as those of
/// a real server.
class connection final : public transport, private store::listener {
 public:
  /// `on`: a strand, unless config::single_threaded.
  connection(host& h, asio::any_io_executor on, std::string client_id, std::string const& store_name);
  ~connection() override;

  void send(protocol::command const& c) override;
  void want_connection() override;
  void drop_connection(std::string_view why) override;
  void shut_down() override;

 private:
  void on_push(protocol::push const& p) override;

  host& host_;
  asio::any_io_executor const on_;
  std::string const id_;
  std::shared_ptr<store> const store_;
  bool wanted_ = false;
};

}  // namespace conch::memory
