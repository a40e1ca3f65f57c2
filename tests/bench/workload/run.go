package workload

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Engine is a scheduler that runs a workload. Tasks are numbered as in the stream, services and
// instances as in the workload.
type Engine interface {
	// Seat puts a task on the instance where it is when the run starts. Not measured.
	Seat(task, service, instance int) error
	// Ready is called once, after the last Seat. Not measured.
	Ready() error
	// Prepare makes what must exist before a task can be placed. Not measured.
	Prepare(task, service int)
	// Place finds an instance and puts the task there.
	Place(task, service int) (Placement, error)
	// Leave removes a task from its instance.
	Leave(task, service, instance int) error
}

// Placement is an engine's answer.
type Placement struct {
	Instance   int // None if the task was refused
	Considered int // the number of instances that were looked at
}

// None means no instance.
const None = -1

// The states in which a run can start.
const (
	Empty = "empty" // no task; the run ends at the latest when Live tasks have come
	Full  = "full"  // Live tasks on their Seats: the steady state
)

// Span says where a run starts, and the limits that end it: the first one counts.
type Span struct {
	Start string
	Time  time.Duration // measured
	Tasks int
}

// Result is what a run measured: a line of the benchmark's output.
type Result struct {
	Peer     string  `json:"peer"`
	Workload string  `json:"workload"`
	Nodes    int     `json:"nodes"`
	Start    string  `json:"start"`
	Placed   int     `json:"placed"`
	Refused  int     `json:"refused"`
	Seconds  float64 `json:"seconds"` // in Place and Leave
	// CPU is the time that the process had on all cores during the run, including preparation. It
	// is more than Seconds if another core collected garbage, and far less if the machine was busy
	// with something else.
	CPU        float64 `json:"cpuSeconds,omitempty"`
	PerSecond  float64 `json:"perSecond"` // tasks placed
	P50        float64 `json:"p50us,omitempty"`
	P99        float64 `json:"p99us,omitempty"`      // of Place
	Considered float64 `json:"considered,omitempty"` // instances looked at per task, the mean
}

// Run measures one engine and then checks its answers. The error is the engine's own, or names the
// first task that it put on an instance without room, or on one where its service must not have a
// second task.
func (w *Workload) Run(peer string, e Engine, span Span) (Result, error) {
	r := run{Workload: w, engine: e, where: make([]int32, w.Live), took: make([]time.Duration, 0, span.Tasks)}
	r.answers = make([]int32, 0, span.Tasks)
	for i := range r.where {
		r.where[i] = None
	}
	switch span.Start {
	case Empty:
		span.Tasks = min(span.Tasks, w.Live)
	case Full:
		r.first = w.Live
		copy(r.where, w.Seats())
		r.seats = slices.Clone(r.where)
		for i, at := range r.seats {
			if at == None {
				continue
			}
			if err := e.Seat(i, w.Service(i), int(at)); err != nil {
				return Result{}, fmt.Errorf("seating task %d: %w", i, err)
			}
		}
	default:
		return Result{}, fmt.Errorf("starting a run: there are %s and %s, not %q", Empty, Full, span.Start)
	}
	if err := e.Ready(); err != nil {
		return Result{}, fmt.Errorf("starting %s: %w", peer, err)
	}
	runtime.GC()
	before := CPU()
	out := Result{Peer: peer, Workload: w.Name, Nodes: len(w.Instances), Start: span.Start}
	for n := 0; n < span.Tasks && r.total < span.Time; n++ {
		if err := r.runStep(r.first + n); err != nil {
			return Result{}, fmt.Errorf("running %s of %d instances through %s: %w", w.Name, len(w.Instances), peer,
				err)
		}
	}
	out.CPU = (CPU() - before).Seconds()
	r.sumResult(&out)
	return out, r.checkAnswers()
}

type run struct {
	*Workload
	engine     Engine
	first      int
	seats      []int32
	where      []int32 // of the task i at i % Live
	answers    []int32 // of the task first+i
	took       []time.Duration
	total      time.Duration
	considered int
}

// runStep lets the next task come, and before that the oldest one leave if the cluster is full.
func (r *run) runStep(i int) error {
	service := r.Service(i)
	r.engine.Prepare(i, service)
	slot := &r.where[i%r.Live]
	begin := time.Now()
	if *slot != None {
		old := i - r.Live
		if err := r.engine.Leave(old, r.Service(old), int(*slot)); err != nil {
			return fmt.Errorf("taking task %d away: %w", old, err)
		}
	}
	left := time.Now()
	p, err := r.engine.Place(i, service)
	end := time.Now()
	if err != nil {
		return fmt.Errorf("placing task %d: %w", i, err)
	}
	*slot = int32(p.Instance)
	r.answers = append(r.answers, *slot)
	r.took = append(r.took, end.Sub(left))
	r.total += end.Sub(begin)
	r.considered += p.Considered
	return nil
}

func (r *run) sumResult(out *Result) {
	for _, at := range r.answers {
		if at == None {
			out.Refused++
		} else {
			out.Placed++
		}
	}
	out.Seconds = r.total.Seconds()
	if len(r.took) == 0 {
		return
	}
	slices.Sort(r.took)
	out.PerSecond = float64(out.Placed) / out.Seconds
	out.P50 = microseconds(r.took[len(r.took)/2])
	out.P99 = microseconds(r.took[len(r.took)*99/100])
	out.Considered = float64(r.considered) / float64(len(r.took))
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// checkAnswers repeats the run with a plain count of what is used.
func (r *run) checkAnswers() error {
	type seat struct{ service, instance int32 }
	room, alone := NewRoom(r.Instances), map[seat]bool{}
	where := make([]int32, r.Live)
	take := func(i int, at int32) error {
		where[i%r.Live] = at
		if at == None {
			return nil
		}
		k := r.Service(i)
		s, here := &r.Services[k], seat{int32(k), at}
		if !room.Fits(int(at), s) || (s.Alone() && alone[here]) {
			return fmt.Errorf("task %d of %s was put on instance %d, where it must not be", i, s.Name, at)
		}
		room.Take(int(at), s)
		alone[here] = true
		return nil
	}
	for i, at := range r.seats {
		if err := take(i, at); err != nil {
			return err
		}
	}
	for n, at := range r.answers {
		i := r.first + n
		if old := i - r.Live; old >= 0 && where[i%r.Live] != None {
			from := where[i%r.Live]
			room.Free(int(from), &r.Services[r.Service(old)])
			delete(alone, seat{int32(r.Service(old)), from})
		}
		if err := take(i, at); err != nil {
			return err
		}
	}
	return nil
}
