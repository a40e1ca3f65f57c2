package rebalance

// What a step tries, in percent. The rest are exchanges of any two tasks.
const (
	shiftShare   = 50 // one task moves
	similarShare = 20 // a large task and one of about its size change places
	sameShare    = 10 // two tasks of a service change places
)

const (
	similarRanks    = 20   // how far apart the sizes of similar tasks are
	rearrangePeriod = 1000 // steps between two rearrangements, on average
)

// tryStep tries one change.
func (s *annealing) tryStep() {
	if s.random.below(rearrangePeriod) == 0 {
		s.rearrange()
		return
	}
	t := s.drawTask()
	switch kind := s.random.below(100); {
	case kind < shiftShare/2:
		s.shift(t, s.drawInstance())
	case kind < shiftShare:
		s.shift(s.drawLargeTask(), s.drawInstance())
	case kind < shiftShare+similarShare:
		t = s.drawLargeTask()
		rank := int(s.tasks.rank[t]) + s.random.below(2*similarRanks+1) - similarRanks
		s.exchange(t, s.tasks.bySize[min(max(rank, 0), len(s.at)-1)])
	case kind < shiftShare+similarShare+sameShare:
		same := s.tasks.ofService[s.serviceOf[t]]
		s.exchange(t, same[s.random.below(len(same))])
	default:
		s.exchange(t, s.drawTask())
	}
}

// shift tries to move one task.
func (s *annealing) shift(t, to int32) {
	from := s.at[t]
	if to == from {
		return
	}
	if change, ok := s.tryShift(t, to); ok && s.accepts(change) {
		s.moveTask(t, to)
		s.journal.note(t, from)
	}
}

// exchange tries to let two tasks change places.
func (s *annealing) exchange(t, u int32) {
	i, j := s.at[t], s.at[u]
	if i == j {
		return
	}
	if change, ok := s.tryExchange(t, u); ok && s.accepts(change) {
		s.liftTask(t)
		s.liftTask(u)
		s.putTask(t, j)
		s.putTask(u, i)
		s.journal.note(t, i)
		s.journal.note(u, j)
	}
}
