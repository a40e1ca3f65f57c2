package workload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/tests/bench/workload"
)

// firstFit is the plainest engine. If careless, it checks nothing.
type firstFit struct {
	w        *workload.Workload
	room     *workload.Room
	on       map[[2]int]int // tasks of a service on an instance
	careless bool
	tasks    int
	fails    error
}

func newFirstFit(w *workload.Workload) *firstFit {
	return &firstFit{w: w, room: workload.NewRoom(w.Instances), on: map[[2]int]int{}}
}

func (e *firstFit) Seat(_, service, instance int) error {
	e.room.Take(instance, &e.w.Services[service])
	e.on[[2]int{service, instance}]++
	e.tasks++
	return nil
}

func (e *firstFit) Ready() error { return e.fails }

func (e *firstFit) Prepare(int, int) {}

func (e *firstFit) Place(task, service int) (workload.Placement, error) {
	s := &e.w.Services[service]
	for at := range e.w.Instances {
		if e.careless || (e.room.Fits(at, s) && (!s.Alone() || e.on[[2]int{service, at}] == 0)) {
			return workload.Placement{Instance: at, Considered: at + 1}, errors.Join(e.fails, e.Seat(task, service, at))
		}
	}
	return workload.Placement{Instance: workload.None, Considered: len(e.w.Instances)}, e.fails
}

func (e *firstFit) Leave(_, service, instance int) error {
	e.room.Free(instance, &e.w.Services[service])
	e.on[[2]int{service, instance}]--
	e.tasks--
	return nil
}

func TestRun(t *testing.T) {
	each(t, workload.Fewest, func(t *testing.T, w *workload.Workload) {
		long := workload.Span{Time: time.Hour, Tasks: 3 * w.Live}
		t.Run("FillsFromEmpty", func(t *testing.T) {
			e := newFirstFit(w)
			long.Start = workload.Empty
			got, err := w.Run("first fit", e, long)
			if err != nil {
				t.Fatal(err)
			}
			if got.Placed+got.Refused != w.Live || e.tasks != got.Placed || got.Placed*100 < w.Live*80 {
				t.Errorf("%+v, %d tasks of %d", got, e.tasks, w.Live)
			}
			if got.Considered < 1 || got.P50 > got.P99 || got.PerSecond <= 0 || got.Nodes != workload.Fewest {
				t.Errorf("%+v", got)
			}
		})
		t.Run("KeepsFull", func(t *testing.T) {
			e := newFirstFit(w)
			long.Start = workload.Full
			got, err := w.Run("first fit", e, long)
			if err != nil {
				t.Fatal(err)
			}
			if got.Placed+got.Refused != long.Tasks || e.tasks > w.Live || e.tasks*100 < w.Live*90 {
				t.Errorf("%+v, %d tasks of %d", got, e.tasks, w.Live)
			}
		})
		t.Run("FindsWhatIsPutWhereItMustNotBe", func(t *testing.T) {
			e := newFirstFit(w)
			e.careless = true
			long.Start = workload.Empty
			if _, err := w.Run("careless", e, long); err == nil || !strings.Contains(err.Error(), "must not be") {
				t.Errorf("error %v", err)
			}
		})
		t.Run("StopsInTime", func(t *testing.T) {
			got, err := w.Run("first fit", newFirstFit(w), workload.Span{Start: workload.Full, Time: 1, Tasks: 1000})
			if err != nil || got.Placed+got.Refused != 1 {
				t.Errorf("%+v, error %v", got, err)
			}
		})
	})
}

func TestRunPassesErrorsOn(t *testing.T) {
	w, _ := workload.Make(workload.Mixed, workload.Fewest, 1)
	e := newFirstFit(w)
	e.fails = errors.New("broken")
	if _, err := w.Run("broken", e, workload.Span{Start: workload.Empty, Time: time.Hour, Tasks: 1}); !errors.Is(err,
		e.fails) {
		t.Errorf("error %v", err)
	}
	if _, err := w.Run("none", e, workload.Span{Start: "half"}); err == nil {
		t.Error("an unknown start was accepted")
	}
}
