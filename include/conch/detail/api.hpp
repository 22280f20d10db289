// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

/// A function that programs call: it leaves a shared library. All else of conch has hidden visibility there. It is
/// written at functions, not at classes: a class with default visibility would need it for the types of all its
/// members.
#if defined(__GNUC__)
#define CONCH_API __attribute__((visibility("default")))
#else
#define CONCH_API
#endif
