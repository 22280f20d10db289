// Bytes per second of the codec: commands as conch sends them, replies as Redis answers them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "resp/decoder.hpp"
#include "resp/encoder.hpp"
#include "servers/redis/codec.hpp"

namespace {

using namespace conch;
using std::chrono::milliseconds;

constexpr std::string_view client = "0123456789abcdef0123456789abcdef";

void encode_acquire(benchmark::State& state) {
  std::string out;
  protocol::acquire_command const c{
      "stock:iphone", 12345, true, milliseconds{30'000}, milliseconds{3'000}, milliseconds{600'000}, 0, 0, false};
  std::int64_t bytes = 0;
  for (auto _ : state) {
    out.clear();
    redis::encode(c, client, out);
    benchmark::DoNotOptimize(out.data());
    bytes += static_cast<std::int64_t>(out.size());
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(encode_acquire);

void encode_renew(benchmark::State& state) {
  std::string out;
  std::vector<protocol::renewal> items(static_cast<std::size_t>(state.range(0)),
                                       {"stock:iphone", 12345, milliseconds{30'000}});
  std::int64_t bytes = 0;
  for (auto _ : state) {
    out.clear();
    redis::encode(protocol::renew_command{items, false}, client, out);
    benchmark::DoNotOptimize(out.data());
    bytes += static_cast<std::int64_t>(out.size());
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(encode_renew)->Arg(200);

/// The floor of encoding: the same bytes, copied.
void copy_acquire(benchmark::State& state) {
  std::string bytes, out;
  redis::encode(protocol::acquire_command{"stock:iphone", 12345, true, milliseconds{30'000}, milliseconds{3'000},
                                          milliseconds{600'000}, 0, 0, false},
                client, bytes);
  for (auto _ : state) {
    out.clear();
    out.append(bytes);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(copy_acquire);

std::string replies() {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "*3\r\n:1\r\n:215000000000" + std::to_string(1000 + i) + "\r\n:179283600000" + std::to_string(1000 + i) +
            "\r\n";
    text += "*4\r\n:1\r\n:0\r\n:0\r\n:179283600000" + std::to_string(1000 + i) + "\r\n";
  }
  return text;
}

std::string pushes() {
  std::string const channel = "conch:" + std::string{client};
  std::string const grant = std::string{client} + ".12345 215000000000123 1792836000000123 3000 conch:{stock:iphone}";
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += ">3\r\n$7\r\nmessage\r\n$" + std::to_string(channel.size()) + "\r\n" + channel + "\r\n$" +
            std::to_string(grant.size()) + "\r\n" + grant + "\r\n";
  }
  return text;
}

/// In reads of `piece` bytes; each message is turned into the engine's terms.
void decode(benchmark::State& state, std::string const& text) {
  auto const piece = static_cast<std::size_t>(state.range(0));
  resp::decoder decoder;
  std::vector<std::int64_t> numbers;
  std::string name;
  std::int64_t messages = 0;
  for (auto _ : state) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t const size = std::min(piece, text.size() - at);
      auto const room = decoder.prepare(size);
      std::memcpy(room.data(), text.data() + at, size);
      decoder.commit(size);
      at += size;
      while (decoder.next() == resp::decoder::progress::message) {
        ++messages;
        if (decoder.is_push()) {
          benchmark::DoNotOptimize(redis::read_push(decoder.message(), client, name));
        } else {
          benchmark::DoNotOptimize(redis::to_answer(decoder.message(), numbers));
        }
      }
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.SetItemsProcessed(messages);
}
BENCHMARK_CAPTURE(decode, replies, replies())->Arg(64)->Arg(16384);
BENCHMARK_CAPTURE(decode, pushes, pushes())->Arg(64)->Arg(16384);

/// The floor of decoding: finding every line.
void find_lines(benchmark::State& state) {
  std::string const text = replies();
  for (auto _ : state) {
    std::size_t lines = 0;
    for (char const *at = text.data(), *const end = at + text.size(); at != end; ++lines) {
      at = static_cast<char const*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at))) + 1;
    }
    benchmark::DoNotOptimize(lines);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(find_lines);

}  // namespace
