package placement

import (
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// The scorings that a spec may name: the order among instances that its strategies hold equal. They are set with the tag
// berth:strategy. Who names one and no strategy gets that order alone, without the spread of S2.
const (
	// LeastFragmentation leaves the GPUs of a cluster most usable: a task goes where it spoils the least of what is free
	// for the tasks that run and wait. Where there are no GPUs it is best fit.
	LeastFragmentation = "least-fragmentation"
	// BestFit is where the least is left: GPUs first, then CPU and memory. It is also what counts where no scoring is
	// named.
	BestFit = "best-fit"
)

// Scorings are the names that [Spec.Scoring] may have, besides none.
func Scorings() []string { return []string{LeastFragmentation, BestFit} }

// scorer orders the instances that all else holds equal.
type scorer interface {
	// epoch is another number whenever the scores of unchanged instances may have become others. It must be asked before
	// the scores of a placement are: it is then that a scorer learns.
	epoch() uint64
	// score is what it costs to place a task on the instance, where it must fit: the lowest is the best.
	score(v *snapshot.InstanceView, spec *Spec) float64
}

// scorerOf is the scoring of that name, nil for best fit. All classes share it, and with it what it learned.
func (e *Engine) scorerOf(name string) scorer {
	if name != LeastFragmentation {
		return nil
	}
	if e.scorers[name] == nil {
		e.scorers[name] = newPacking(e.snap)
	}
	return e.scorers[name]
}

// packing is the scoring [LeastFragmentation]. A task costs what it adds to the value of the instance's state, which is
// small where what is free can still be used (see [blend.value]), and on top of that the price of the instance's pool,
// which is high where tasks want to go that can go to few other pools (see [mix.price]). Both come from the [mix] of
// tasks that run and wait, learned anew as the tasks change (see [packing.patience]).
//
// The loss of GPUs to tasks that do not fit is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023). What CPU and memory leave idle, and the prices, are
// not in the paper.
type packing struct {
	snap    *snapshot.Snapshot
	mix     *mix
	began   uint64 // what the snapshot had counted when the epoch began
	wait    uint64 // how many changes it lasts
	number  uint64 // of the epoch
	seq     uint64 // of the snapshot, as far as known goes
	note    func(index int, owner string)
	known   []int32 // by index of the instance: the state it is in, 0 where that is to be found out
	states  leftovers
	scores  []scored
	needs   map[cluster.Resources]int32
	spec    *Spec // that was asked for last
	current int32 // its needs
}

func newPacking(s *snapshot.Snapshot) *packing {
	p := &packing{snap: s}
	p.note = func(index int, _ string) {
		if index < len(p.known) {
			p.known[index] = 0
		}
	}
	return p
}

func (p *packing) epoch() uint64 {
	now := p.snap.Seq()
	if p.mix == nil || now-p.began >= p.wait {
		last := p.mix
		p.mix = learn(p.snap, last)
		p.began, p.wait = now, p.patience(last)
		p.number++
		p.forget()
		p.needs, p.spec = map[cluster.Resources]int32{}, nil
	} else if p.seq != now && !p.snap.ChangedSince(p.seq, p.note) {
		clear(p.known)
	}
	p.seq = now
	return p.number
}

// patience is how many changes of instances to wait for until there may be something to learn: as many as there are
// tasks that need GPUs while these become more, and so often enough while a cluster fills; after that, longer and longer,
// up to as many as there is to look at, so that learning costs next to nothing per change.
func (p *packing) patience(last *mix) uint64 {
	tasks := uint64(max(1, p.mix.tasks))
	if last == nil || 2*p.mix.tasks > 3*last.tasks {
		return tasks
	}
	return max(tasks, min(2*p.wait, uint64(p.snap.TaskCount()+len(p.snap.Dense()))))
}

// forget drops what can be computed again.
func (p *packing) forget() {
	p.states.reset()
	clear(p.known)
	if p.scores == nil {
		p.scores = make([]scored, 1<<scoreBits)
	}
	clear(p.scores)
}

// scored is a score that was computed, of tasks with the same needs in the same state. State 0 is none.
type scored struct {
	state, needs int32
	score        float64
}

// scoreBits is how many scores are kept: each has one position, where the latest stays.
const scoreBits = 17

const (
	// priceWeight is how much the price of a pool counts against fragmentation. More of it keeps more room for tasks
	// that can go to few pools, and leaves more of it empty.
	priceWeight = 0.6
	// fitWeight is how much best fit counts: it decides where fragmentation is as good as equal.
	fitWeight = 0.01
)

func (p *packing) score(v *snapshot.InstanceView, spec *Spec) float64 {
	if p.states.full() {
		p.forget()
	}
	needs := p.needsOf(spec)
	from := p.stateOf(v)
	memo := &p.scores[(uint64(from)<<32|uint64(needs))*0x9e3779b97f4a7c15>>(64-scoreBits)]
	if memo.state == from && memo.needs == needs {
		return memo.score
	}
	to := p.states.after(from, &spec.Needs)
	score := p.value(to) - p.value(from) + fitWeight*p.states.left(to)
	if pool := p.states.all[from].pool; pool != noPool {
		score += priceWeight * p.mix.pools[pool].price * float64(spec.Needs.GPUs*spec.Needs.PerGPU())
	}
	*memo = scored{from, needs, score}
	return score
}

// stateOf is the state of the instance, be it one that a placement under way looks at in another state than the
// snapshot has it in.
func (p *packing) stateOf(v *snapshot.InstanceView) int32 {
	committed := p.snap.Dense()[v.Index] == v
	if committed && v.Index < len(p.known) && p.known[v.Index] > 0 {
		return p.known[v.Index]
	}
	id := p.states.of(p.mix.poolOf(v), v)
	if committed {
		lengthen(&p.known, v.Index+1)
		p.known[v.Index] = id
	}
	return id
}

// needsOf numbers the needs of a spec.
func (p *packing) needsOf(spec *Spec) int32 {
	if p.spec == spec {
		return p.current
	}
	n, ok := p.needs[spec.Needs]
	if !ok {
		n = int32(len(p.needs))
		p.needs[spec.Needs] = n
	}
	p.spec, p.current = spec, n
	return n
}

func (p *packing) value(id int32) float64 {
	s := &p.states.all[id]
	if !s.valued {
		s.valued = true
		if s.pool != noPool && s.spare > 0 {
			s.value = p.mix.blend(s.pool).value(s, p.states.parts(s))
		}
	}
	return s.value
}
