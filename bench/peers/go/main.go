// Go libraries beside conch: see locks.go for their settings, and ../README.md for the lines.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// How long a waiter may take after the end, where the library has a context: one that is left behind forever is counted, not waited for.
// Longer than TryNextAfter.
const patience = 15 * time.Second

// Between two clients that ask.
const gap = 3 * time.Millisecond

// monotonic is the same clock in all processes.
func monotonic() int64 {
	var now syscall.Timespec
	const clockMonotonic = 1
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failure != 0 {
		check(failure)
	}
	return now.Nano()
}

// work is the critical section: slept if it is a millisecond or more, else computed.
func work(body time.Duration) {
	if body >= time.Millisecond {
		time.Sleep(body)
		return
	}
	for begin := time.Now(); time.Since(begin) < body; {
	}
}

type task struct {
	holds int
	held  time.Duration
	waits []float64
}

// run acquires and releases until the time has passed, and once more.
func (t *task) run(l lock, patient context.Context, until time.Time, body time.Duration, contended bool) {
	for {
		begin := time.Now()
		served := l.acquire(patient)
		now := time.Now()
		if contended {
			t.waits = append(t.waits, float64(now.Sub(begin).Nanoseconds())/1e3)
		}
		if !served {
			gaveUp.Add(1)
			return
		}
		if body > 0 {
			work(body)
		}
		releases := time.Now()
		l.release()
		if !now.Before(until) {
			return
		}
		t.holds++
		t.held += releases.Sub(now)
	}
}

func main() {
	if len(os.Args) != 5 || libraries[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer LIBRARY WORKLOAD PORT TASKS")
		os.Exit(2)
	}
	connect, workload, port := libraries[os.Args[1]], os.Args[2], os.Args[3]
	tasks, err := strconv.Atoi(os.Args[4])
	check(err)
	forever := context.Background()

	one := connect(port)
	var many []library
	if workload == "drain" {
		for range tasks {
			many = append(many, connect(port))
		}
	}
	held := one(workload)
	var drained sync.WaitGroup
	var first atomic.Int64
	output := bufio.NewWriter(os.Stdout)
	say := func(format string, values ...any) {
		fmt.Fprintf(output, format+"\n", values...)
		output.Flush()
	}
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		switch words[0] {
		case "go":
			seconds, err := strconv.ParseFloat(words[1], 64)
			check(err)
			body, err := strconv.Atoi(words[2])
			check(err)
			count, err := strconv.Atoi(words[3])
			check(err)
			until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
			gaveUp.Store(0)
			patient, stop := context.WithCancel(forever)
			timer := time.AfterFunc(time.Until(until.Add(patience)), stop)
			contended := workload == "contended"
			all := make([]task, count)
			var running sync.WaitGroup
			for i := range all {
				name := workload
				if !contended {
					name += ":" + strconv.Itoa(i)
				}
				running.Go(func() { all[i].run(one(name), patient, until, time.Duration(body)*time.Microsecond, contended) })
			}
			running.Wait()
			timer.Stop()
			stop()
			for _, t := range all {
				fmt.Fprintf(output, "task %d %d", t.holds, t.held.Microseconds())
				for _, wait := range t.waits {
					fmt.Fprintf(output, " %.1f", wait)
				}
				fmt.Fprintln(output)
			}
			say("done %d", gaveUp.Load())
		case "acquire", "wait":
			held.acquire(forever)
			say("took %d", monotonic())
		case "release":
			at := monotonic()
			held.release()
			say("released %d", at)
		case "arm":
			held.acquire(forever)
			first.Store(0)
			for _, client := range many {
				drained.Go(func() {
					l := client(workload)
					l.acquire(forever)
					first.CompareAndSwap(0, monotonic())
					l.release()
				})
				time.Sleep(gap)
			}
			say("armed")
		case "drain":
			begin := monotonic()
			held.release()
			drained.Wait()
			say("drained %d %d", (monotonic()-begin)/1000, (first.Load()-begin)/1000)
		}
	}
}
