// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <boost/asio/detail/config.hpp>
#include <boost/version.hpp>

// A program and the library must agree in what changes the classes of Asio. Where they do not, the program would link,
// and end in a crash or a hang. So each fact is a function whose name says it: the library defines those that are true
// of itself, and each translation unit of a program names those that are true of it. The linker then shows the name of
// the one that is missing.
#ifdef BOOST_ASIO_SEPARATE_COMPILATION
#define CONCH_AGREES_ON_BODIES conch_has_the_bodies_of_Asio
#else
#define CONCH_AGREES_ON_BODIES conch_needs_BOOST_ASIO_SEPARATE_COMPILATION_and_this_does_not_define_it
#endif

// BOOST_ASIO_NO_TYPEID: Asio then looks for services by other keys.
#ifdef BOOST_ASIO_NO_TYPEID
#define CONCH_AGREES_ON_RTTI conch_needs_RTTI_and_this_is_compiled_with_fno_rtti
#else
#define CONCH_AGREES_ON_RTTI conch_is_compiled_with_fno_rtti_and_this_is_not
#endif

#ifdef BOOST_ASIO_HAS_THREADS
#define CONCH_AGREES_ON_THREADS conch_is_compiled_with_BOOST_ASIO_DISABLE_THREADS_and_this_is_not
#else
#define CONCH_AGREES_ON_THREADS conch_is_compiled_without_BOOST_ASIO_DISABLE_THREADS_and_this_is_not
#endif

#ifdef BOOST_ASIO_NO_TS_EXECUTORS
#define CONCH_AGREES_ON_TS_EXECUTORS conch_is_compiled_without_BOOST_ASIO_NO_TS_EXECUTORS_and_this_is_not
#else
#define CONCH_AGREES_ON_TS_EXECUTORS conch_is_compiled_with_BOOST_ASIO_NO_TS_EXECUTORS_and_this_is_not
#endif

#ifdef BOOST_ASIO_ENABLE_HANDLER_TRACKING
#define CONCH_AGREES_ON_TRACKING conch_is_compiled_without_BOOST_ASIO_ENABLE_HANDLER_TRACKING_and_this_is_not
#else
#define CONCH_AGREES_ON_TRACKING conch_is_compiled_with_BOOST_ASIO_ENABLE_HANDLER_TRACKING_and_this_is_not
#endif

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#define CONCH_AGREES_ON_REACTOR \
  conch_is_compiled_without_BOOST_ASIO_HAS_IO_URING_and_BOOST_ASIO_DISABLE_EPOLL_and_this_is_not
#elif defined(BOOST_ASIO_HAS_EPOLL)
#define CONCH_AGREES_ON_REACTOR conch_is_compiled_with_BOOST_ASIO_DISABLE_EPOLL_and_this_is_not
#else
#define CONCH_AGREES_ON_REACTOR conch_is_compiled_without_BOOST_ASIO_DISABLE_EPOLL_and_this_is_not
#endif

#define CONCH_DETAIL_JOIN_(a, b) a##b
#define CONCH_DETAIL_JOIN(a, b) CONCH_DETAIL_JOIN_(a, b)
#ifndef CONCH_AGREES_ON_BOOST  // a test has another
#define CONCH_AGREES_ON_BOOST \
  CONCH_DETAIL_JOIN(conch_is_compiled_with_another_version_of_Boost_than_this_BOOST_VERSION_, BOOST_VERSION)
#endif

extern "C" {
CONCH_API void CONCH_AGREES_ON_BODIES();
CONCH_API void CONCH_AGREES_ON_RTTI();
CONCH_API void CONCH_AGREES_ON_THREADS();
CONCH_API void CONCH_AGREES_ON_TS_EXECUTORS();
CONCH_API void CONCH_AGREES_ON_TRACKING();
CONCH_API void CONCH_AGREES_ON_REACTOR();
CONCH_API void CONCH_AGREES_ON_BOOST();
}

#if defined(__GNUC__)
#if defined(__has_attribute) && __has_attribute(retain) && defined(__ELF__)
#define CONCH_KEPT __attribute__((used, retain))  // also with --gc-sections
#else
#define CONCH_KEPT __attribute__((used))
#endif

namespace conch::detail {
// Kept although nobody reads it, and one for each translation unit: they may differ.
CONCH_KEPT static void (*const agreement[])() = {
    &CONCH_AGREES_ON_BODIES,   &CONCH_AGREES_ON_RTTI,    &CONCH_AGREES_ON_THREADS, &CONCH_AGREES_ON_TS_EXECUTORS,
    &CONCH_AGREES_ON_TRACKING, &CONCH_AGREES_ON_REACTOR, &CONCH_AGREES_ON_BOOST};
}  // namespace conch::detail
#endif
