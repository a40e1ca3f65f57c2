package whatif

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/wire/berthapi"
)

// Moves are the moves in progress, those that the cluster would make now, and why.
type Moves struct {
	// UnderWay are replacements that have not taken over yet. Until they have, no move starts for
	// their services and instances.
	UnderWay []Replacement `json:"underWay"`
	Planned  []Move        `json:"planned"`
	// Violations are the rules that are broken now, Unrepaired those that no moves can repair.
	Violations []string `json:"violations"`
	Unrepaired []string `json:"unrepaired"`
	// Exact reports that no cheaper moves repair as much. If it is false, there may be some.
	Exact bool `json:"exact"`
	// Room is how tasks that find no instance would get one, if moves can help.
	Room *Room `json:"room,omitempty"`
}

// Move is one task that would change its instance. Mode says whether its replacement starts before
// or after it stops. With Via, the task moves to that instance first, to make way for another.
type Move struct {
	Task    string `json:"task"`
	Service string `json:"service"`
	From    string `json:"from"`
	To      string `json:"to"`
	Via     string `json:"via,omitempty"`
	Mode    string `json:"mode"`
	Cost    int    `json:"cost"`
	// After are the positions, from 0, of the moves that must be over before it.
	After []int  `json:"after,omitempty"`
	Why   string `json:"why"`
}

// Replacement is a task (By) that takes over from another one (Task).
type Replacement struct {
	Service string `json:"service"`
	Task    string `json:"task"`
	From    string `json:"from"`
	By      string `json:"by"`
	To      string `json:"to"`
}

// Room is moves that make room for tasks that fit nowhere now.
type Room struct {
	Moves []Move `json:"moves"`
	// Places are the instances of the question's tasks once the moves are over, including the tasks
	// that need no move.
	Places []string `json:"places"`
	// Exact reports that no cheaper moves make as much room. If it is false, there may be some.
	Exact bool `json:"exact"`
	// Automatic reports that Berth makes these moves by itself. It does so for tasks of a service
	// that lack the capacity of a metric.
	Automatic bool `json:"automatic"`
}

// movesRequest names the services whose tasks may move, as the decisions do: ACTIVE REPLICA
// services under domain or metric rules.
func (m *model) movesRequest() (moves.Request, error) {
	out := moves.Request{Owners: map[string]moves.Owner{}, Most: decide.MaxMoves}
	governed := m.snap.GovernedServices()
	for _, name := range slices.Sorted(maps.Keys(governed)) {
		s := governed[name]
		if s.Status != cluster.ServiceActive || s.Strategy != cluster.Replica {
			continue
		}
		spec, err := m.serviceSpec(s, &cluster.Rules{})
		if err != nil {
			return out, err
		}
		out.Owners[s.Short] = specs.MoverOf(s, spec, s.MoveGaveUp)
	}
	return out, nil
}

// planMoves returns the moves in progress and those that would be made now.
func (m *model) planMoves() (*Moves, error) {
	ask, err := m.movesRequest()
	if err != nil {
		return nil, err
	}
	plan := m.planner.PlanMoves(ask)
	names := m.serviceNames()
	return &Moves{
		UnderWay: m.replacementsInProgress(), Planned: m.convertMoves(plan.Moves),
		Violations: describeViolations(plan.Violations, names),
		Unrepaired: describeViolations(plan.Unrepaired, names),
		Exact:      plan.Exact,
	}, nil
}

// convertMoves converts moves, with the names of their services.
func (m *model) convertMoves(moves []moves.Move) []Move {
	names := m.serviceNames()
	out := []Move{}
	for _, m := range moves {
		out = append(out, Move{m.Task, names[m.Owner], m.From, m.To, m.Via, string(m.Mode), m.Cost, m.After, m.Why})
	}
	return out
}

// serviceNames returns the services' names by their short keys.
func (m *model) serviceNames() map[string]string {
	out := map[string]string{}
	for name, s := range m.snap.Services {
		out[s.Short] = name
	}
	return out
}

// describeViolations puts violations into words, once each. A service whose short key is in names
// is named.
func describeViolations(violations []moves.Violation, names map[string]string) []string {
	out := []string{}
	for _, v := range violations {
		text := v.String()
		if name := names[v.Owner]; name != "" {
			text = name + ": " + text
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// replacementsInProgress returns the replacements that have not taken over yet, by service and
// task.
func (m *model) replacementsInProgress() []Replacement {
	out := []Replacement{}
	for t := range m.snap.Tasks() {
		if t.Replaces == "" || !t.IsActive() {
			continue
		}
		// Once the old task has released its capacity, the move is over.
		if old := m.snap.Task(t.Owner, t.Replaces); old != nil && old.HoldsCapacity() {
			out = append(out, Replacement{t.Service, old.ID, old.Instance, t.ID, t.Instance})
		}
	}
	slices.SortFunc(out, func(a, b Replacement) int {
		return slices.Compare([]string{a.Service, a.Task}, []string{b.Service, b.Task})
	})
	return out
}

// addRoomMoves adds the moves that would let more of the question's tasks run, if there are any.
func (m *model) addRoomMoves(a *Answer, q *Question, r placement.Request) error {
	ask, err := m.movesRequest()
	if err != nil {
		return err
	}
	ask.Newcomer = "this size"
	if q.Service != "" {
		ask.Newcomer = "service " + q.Service
	}
	plan := m.planner.MakeRoom(r, ask)
	// Moves that help no further task are no answer.
	if len(plan.Moves) == 0 || len(plan.Places) <= len(a.Placed) {
		return nil
	}
	// Placement makes room by moves only if a metric is short (P11), never for CPU or memory.
	lacking := slices.ContainsFunc(a.Diagnosis.Rejected,
		func(r berthapi.Rejection) bool { return r.Filter == string(cluster.FilterMetric) })
	a.Moves.Room = &Room{Moves: m.convertMoves(plan.Moves), Places: plan.Places, Exact: plan.Exact,
		Automatic: q.Service != "" && lacking}
	return nil
}
