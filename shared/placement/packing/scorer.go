package packing

import (
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// Scorer scores instances by least fragmentation. The score of a task on an instance has two parts:
//
//   - what the task adds to the waste of the instance's state: small where what is left can still
//     be used (see [blend.waste])
//   - the price of the instance's pool: high where tasks want to go that can go to few other pools
//     (see [mix.setPrices])
//
// Both come from the [mix] of tasks that run and wait, which is learned anew as the tasks change
// (see [Scorer.interval]).
//
// The loss of GPUs to tasks that do not fit is that of Weng et al., "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023). What CPU
// and memory leave idle, and the prices, are not in the paper.
type Scorer struct {
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
	last    cluster.Resources // needs that were asked for last
	current int32             // their number
}

// New returns a scorer of the snapshot's instances that has learned nothing yet.
func New(s *snapshot.Snapshot) *Scorer {
	p := &Scorer{snap: s}
	p.note = func(index int, _ string) {
		if index < len(p.known) {
			p.known[index] = 0
		}
	}
	return p
}

// Epoch learns the mix anew if enough has changed, and returns a number that changes whenever it
// does. Scores are valid until the snapshot changes or the epoch does.
func (p *Scorer) Epoch() uint64 {
	now := p.snap.ChangeSeq()
	if p.mix == nil || now-p.began >= p.wait {
		last := p.mix
		p.mix = learn(p.snap, last)
		p.began, p.wait = now, p.patience(last)
		p.number++
		p.Forget()
		p.needs, p.last, p.current = map[cluster.Resources]int32{}, cluster.Resources{}, -1
	} else if p.seq != now && !p.snap.ChangedSince(p.seq, p.note) {
		clear(p.known)
	}
	p.seq = now
	return p.number
}

// patience is how many changes of instances to wait for until there may be something to learn: as
// many as there are tasks that need GPUs while these become more, and so often enough while a
// cluster fills; after that, longer and longer, up to as many as there is to look at, so that
// learning costs next to nothing per change.
func (p *Scorer) patience(last *mix) uint64 {
	tasks := uint64(max(1, p.mix.tasks))
	if last == nil || 2*p.mix.tasks > 3*last.tasks {
		return tasks
	}
	return max(tasks, min(2*p.wait, uint64(p.snap.TaskCount()+len(p.snap.InstancesByIndex()))))
}

// Forget drops what can be computed again.
func (p *Scorer) Forget() {
	p.states.reset()
	clear(p.known)
	if p.scores == nil {
		p.scores = make([]scored, 1<<scoreBits)
	}
	clear(p.scores)
}

// scored is a score that was computed, of tasks with the same needs in the same state. State 0 is
// none.
type scored struct {
	state, needs int32
	score        float64
}

// scoreBits is how many scores are kept: each has one position, where the latest stays.
const scoreBits = 17

const (
	// priceWeight is how much the price of a pool counts against fragmentation. More of it keeps
	// more room for tasks that can go to few pools, and leaves more of it empty.
	priceWeight = 0.6
	// fitWeight is how much best fit counts: it decides where fragmentation is as good as equal.
	fitWeight = 0.01
)

// Score returns what it costs to place a task with these needs on the instance, where it must fit:
// the lowest is the best. [Scorer.Epoch] must have been called since the snapshot changed.
func (p *Scorer) Score(v *snapshot.InstanceView, needs *cluster.Resources) float64 {
	if p.states.full() {
		p.Forget()
	}
	number := p.numberOf(needs)
	from := p.stateOf(v)
	memo := &p.scores[(uint64(from)<<32|uint64(number))*0x9e3779b97f4a7c15>>(64-scoreBits)]
	if memo.state == from && memo.needs == number {
		return memo.score
	}
	to := p.states.after(from, needs)
	score := p.value(to) - p.value(from) + fitWeight*p.states.left(to)
	if pool := p.states.all[from].pool; pool != noPool {
		score += priceWeight * p.mix.pools[pool].price * float64(needs.GPUs*needs.PerGPU())
	}
	*memo = scored{from, number, score}
	return score
}

// stateOf is the state of the instance, be it one that a placement under way looks at in another
// state than the snapshot has it in.
func (p *Scorer) stateOf(v *snapshot.InstanceView) int32 {
	committed := p.snap.InstancesByIndex()[v.Index] == v
	if committed && v.Index < len(p.known) && p.known[v.Index] > 0 {
		return p.known[v.Index]
	}
	id := p.states.of(p.mix.poolOf(v), v)
	if committed {
		p.known = append(p.known, make([]int32, max(0, v.Index+1-len(p.known)))...)
		p.known[v.Index] = id
	}
	return id
}

// numberOf numbers the needs.
func (p *Scorer) numberOf(needs *cluster.Resources) int32 {
	if p.current >= 0 && p.last == *needs {
		return p.current
	}
	n, ok := p.needs[*needs]
	if !ok {
		n = int32(len(p.needs))
		p.needs[*needs] = n
	}
	p.last, p.current = *needs, n
	return n
}

func (p *Scorer) value(id int32) float64 {
	s := &p.states.all[id]
	if !s.valued {
		s.valued = true
		if s.pool != noPool && s.spare > 0 {
			s.value = p.mix.blend(s.pool).value(s, p.states.parts(s))
		}
	}
	return s.value
}
