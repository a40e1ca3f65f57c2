package kernel

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/shared/cluster"
)

// noTimers is a clock whose timers never fire.
type noTimers struct{}

func (noTimers) Now() time.Time              { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) }
func (noTimers) After(time.Duration, func()) {}

// page is a row that does not fit into the file of the test.
type page struct{ text string }

func (p *page) StoredRow() (bucket, key string, value any) { return meta, "page", p.text }

// A slow disk holds up the change that is written, and nothing else: views and timers go on. No
// event goes out before the change is on disk, and events keep the order of their steps.
func TestViewsAndTimersDoNotWaitForTheDisk(t *testing.T) {
	writing, written := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var emitted []string
	k := New(Options{Clock: noTimers{},
		Emit: func(event []byte) {
			mu.Lock()
			defer mu.Unlock()
			emitted = append(emitted, string(event[len(event)-len(`"1"}`):]))
		},
		Unwritable: func(error) { close(writing); <-written }, // called by the write that fails, before it returns
	})
	if err := k.Open(filepath.Join(t.TempDir(), "fleet.db")); err != nil {
		t.Fatal(err)
	}
	emit := func(n string) { k.EmitEvent(Event{}, []byte(`"`+n+`"`)) }
	k.file.disk.LimitSize(1)
	changed := make(chan error)
	go func() {
		changed <- k.Change(func(time.Time) error {
			k.SaveRow(&page{string(make([]byte, 1<<20))})
			emit("1")
			return nil
		})
	}()
	<-writing
	gone := make(chan error)
	go func() {
		gone <- k.View(func(time.Time) error { return nil })
		k.Advance(func(time.Time) { emit("2") })
		gone <- nil
	}()
	for range 2 {
		select {
		case err := <-gone:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a view or a timer waits for the disk")
		}
	}
	mu.Lock()
	if len(emitted) > 0 {
		t.Errorf("events %v went out before the change was on disk", emitted)
	}
	mu.Unlock()
	close(written)
	if err := <-changed; !errors.Is(err, cluster.ErrAmbiguous) {
		t.Errorf("the change: %v, want its outcome unknown", err)
	}
	if want := []string{`"1"}`, `"2"}`}; !slices.Equal(emitted, want) {
		t.Errorf("events %v, want %v", emitted, want)
	}
	if len(k.file.dirty) != 1 {
		t.Errorf("%d rows wait to be written, want the one that was not", len(k.file.dirty))
	}
}
