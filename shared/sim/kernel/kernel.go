package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/shared/cluster"
)

// Clock tells the time and calls back later. f runs at most once and never from inside After.
type Clock interface {
	Now() time.Time
	After(d time.Duration, f func())
}

// Options configure a [Kernel].
type Options struct {
	Clock Clock
	// Emit receives every event in order, as EventBridge would deliver it. It runs outside of the
	// lock and may call the services.
	Emit    func(event []byte)
	Seed    uint64 // of every id and random choice
	Account cluster.Account
	// Unwritable is called with the error when writing the file fails, and with nil when it
	// succeeds again. It may be nil, and must not call the services.
	Unwritable func(err error)
}

// Kernel is the lock, the clock, the event queue and the file that the simulated services share.
// Its methods may be called from any goroutine, except for those that say they belong in a step.
type Kernel struct {
	Options

	// writing is held while the file is written, and by a step of [Kernel.Change] before it. It is
	// taken before mu.
	writing sync.Mutex
	mu      sync.Mutex

	expiring   []expiring       // soonest first
	counters   map[string]int64 // by name, see NextNumber; stored
	faults     CallFaults
	events     [][]byte // queued by steps, not delivered yet
	delivering bool     // a goroutine delivers events at the moment
	unwritten  bool     // the outcome of a Change is not on disk yet: its events must not go out

	file        file
	flushQueued bool
}

// expiring is a removed resource that stays visible until a time.
type expiring struct {
	at     time.Time
	remove func()
}

// New returns a kernel that lives in memory only. [Kernel.Open] attaches a file.
func New(o Options) *Kernel {
	if o.Emit == nil {
		o.Emit = func([]byte) {}
	}
	return &Kernel{Options: o, counters: map[string]int64{}}
}

// View runs a step that changes nothing.
func (k *Kernel) View(step func(now time.Time) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return step(k.beginStep())
}

// Change runs a step whose outcome is on disk before Change returns; then its events go out. Views
// and timers do not wait for the disk. A step that fails must have changed nothing. While the file
// cannot be written, no step is run: the one whose write failed first is in memory, its outcome
// [cluster.ErrAmbiguous].
func (k *Kernel) Change(step func(now time.Time) error) error {
	k.writing.Lock()
	k.mu.Lock()
	if k.file.disk != nil && k.file.disk.IsFailing() {
		if err := k.file.writeDirtyRows(&k.mu, k.counters); err != nil {
			k.mu.Unlock()
			k.writing.Unlock()
			return err
		}
	}
	err := step(k.beginStep())
	k.unwritten = true
	if stored := k.file.writeDirtyRows(&k.mu, k.counters); stored != nil && err == nil {
		err = fmt.Errorf("writing the fleet's file: %w: %w", stored, cluster.ErrAmbiguous)
	}
	k.unwritten = false
	k.writing.Unlock()
	k.unlockAndDeliver()
	return err
}

// Advance runs a step that a timer triggered.
// It can be worked out again after a crash, so it is written later, together with others.
func (k *Kernel) Advance(step func(now time.Time)) {
	k.mu.Lock()
	step(k.beginStep())
	k.flushLater()
	k.unlockAndDeliver()
}

// WithLock runs f, which neither reads the time nor emits anything, with the lock held.
func (k *Kernel) WithLock(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// After calls f, outside of any step, when d has passed.
func (k *Kernel) After(d time.Duration, f func()) { k.Clock.After(d, f) }

// AdvanceAfter runs a step of [Kernel.Advance] when d has passed, at once where d is negative.
func (k *Kernel) AdvanceAfter(d time.Duration, step func(now time.Time)) {
	k.After(max(d, 0), func() { k.Advance(step) })
}

// ScheduleRemoval calls remove in the first step at or after a time. It belongs in a step.
func (k *Kernel) ScheduleRemoval(at time.Time, remove func()) {
	n, _ := slices.BinarySearchFunc(k.expiring, at, func(e expiring,
		at time.Time) int {
		return cmp.Or(e.at.Compare(at), -1)
	})
	k.expiring = slices.Insert(k.expiring, n, expiring{at, remove})
}

// beginStep returns the time of a step, in whole milliseconds, the resolution of events. It removes
// what has expired by then.
func (k *Kernel) beginStep() time.Time {
	now := k.Clock.Now().UTC().Truncate(time.Millisecond)
	for len(k.expiring) > 0 && !k.expiring[0].at.After(now) {
		k.expiring[0].remove()
		k.expiring = k.expiring[1:]
	}
	return now
}

// unlockAndDeliver releases the lock and delivers the queued events. A goroutine that finds another
// one delivering, or a Change whose outcome is being written, leaves its events to that one, so that
// events keep their order.
func (k *Kernel) unlockAndDeliver() {
	if !k.delivering {
		k.delivering = true
		for len(k.events) > 0 && !k.unwritten {
			batch := k.events
			k.events = nil
			k.mu.Unlock()
			for _, event := range batch {
				k.Options.Emit(event)
			}
			k.mu.Lock()
		}
		k.delivering = false
	}
	k.mu.Unlock()
}

// NextNumber increments a stored counter and returns its value, from 1. It belongs in a step.
func (k *Kernel) NextNumber(counter string) int64 {
	k.counters[counter]++
	return k.counters[counter]
}

// ResourceID returns 32 hex digits, the same for the same seed, kind and number.
func (k *Kernel) ResourceID(kind string, n int64) string {
	return cluster.Digest("fleet", strconv.FormatUint(k.Seed, 10), kind, strconv.FormatInt(n, 10))
}

// ResourceARN returns the ARN of a resource of any service but ECS, whose ARNs [cluster.Account]
// makes.
func (k *Kernel) ResourceARN(service, resource string) string {
	a := k.Account
	return "arn:" + cmp.Or(a.Partition, "aws") + ":" + service + ":" + a.Region + ":" + a.ID + ":" + resource
}

// FormatUUID returns the first 32 hex digits of s in the form of a UUID.
func FormatUUID(s string) string {
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:32]
}
