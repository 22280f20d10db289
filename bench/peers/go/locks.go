package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"
)

// Each library as it is recommended, with its own numbers of tries and delays; only the lease is conch's.
const (
	lease = 30 * time.Second

	// Between two tries of the polling loop: the default of userver's dist_lock (acquire_interval) and of redis-py's Lock.
	pollEvery = 100 * time.Millisecond
)

// gaveUp counts acquires that a library gave up; they are asked for again.
var gaveUp atomic.Int64

// A lock belongs to one goroutine. acquire answers false if the context ended first; those that poll do not look at it.
type lock interface {
	acquire(ctx context.Context) bool
	release()
}

// A library is one client, which makes locks.
type library func(name string) lock

var libraries = map[string]func(port string) library{
	"redsync-goredis": func(port string) library {
		by := redsync.New(goredis.NewPool(goRedis(port)))
		return func(name string) lock { return redsyncLock{by.NewMutex("redsync:"+name, redsync.WithExpiry(lease))} }
	},
	"redsync-rueidis": func(port string) library {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}})
		check(err)
		by := redsync.New(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)))
		return func(name string) lock {
			return redsyncLock{by.NewMutex("redsync-rueidis:"+name, redsync.WithExpiry(lease))}
		}
	},
	"redislock": func(port string) library {
		by := redislock.New(goRedis(port))
		return func(name string) lock { return &redislockLock{by: by, name: "redislock:" + name} }
	},
	"rueidislock": func(port string) library {
		by, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}},
			KeyPrefix:      "rueidislock",
			KeyValidity:    lease,
			KeyMajority:    2,
			TryNextAfter:   5 * time.Second,
			NoLoopTracking: true,
		})
		check(err)
		return func(name string) lock { return &rueidisLock{by: by, name: name} }
	},
	"polling": func(port string) library {
		by := goRedis(port)
		return func(name string) lock { return &pollingLock{by: by, name: "polling:" + name} }
	},
}

func goRedis(port string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	check(client.Ping(context.Background()).Err())
	return client
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

type redsyncLock struct{ *redsync.Mutex }

func (l redsyncLock) acquire(context.Context) bool {
	for l.Lock() != nil {
		gaveUp.Add(1)
	}
	return true
}

func (l redsyncLock) release() {
	_, err := l.Unlock()
	check(err)
}

// redislockLock has the strategy of the library's examples: every 100 ms. Without the examples' limit of three tries: a wait has no end here.
type redislockLock struct {
	by   *redislock.Client
	name string
	held *redislock.Lock
}

func (l *redislockLock) acquire(context.Context) bool {
	for {
		// Without a deadline the library takes the lease for the longest wait.
		held, err := l.by.Obtain(context.Background(), l.name, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		if err == nil {
			l.held = held
			return true
		}
		if !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded) {
			check(err)
		}
		gaveUp.Add(1)
	}
}

func (l *redislockLock) release() { check(l.held.Release(context.Background())) }

type rueidisLock struct {
	by     rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func (l *rueidisLock) acquire(ctx context.Context) bool {
	_, cancel, err := l.by.WithContext(ctx, l.name)
	if err != nil && ctx.Err() != nil {
		return false
	}
	check(err)
	l.cancel = cancel
	return true
}

func (l *rueidisLock) release() { l.cancel() }

// pollingLock is what most people write themselves: SET NX PX in a loop, and a script that compares and deletes.
type pollingLock struct {
	by    *redis.Client
	name  string
	token string
}

var (
	tokens           atomic.Int64
	compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)
)

func (l *pollingLock) acquire(ctx context.Context) bool {
	l.token = fmt.Sprintf("%d-%d", os.Getpid(), tokens.Add(1))
	for {
		taken, err := l.by.SetNX(context.Background(), l.name, l.token, lease).Result()
		check(err)
		if taken {
			return true
		}
		time.Sleep(pollEvery)
	}
}

func (l *pollingLock) release() {
	check(compareAndDelete.Run(context.Background(), l.by, []string{l.name}, l.token).Err())
}
