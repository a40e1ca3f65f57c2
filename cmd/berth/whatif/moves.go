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

// Moves are those that the cluster would make now.
type Moves struct {
	// UnderWay are replacements that have yet to take over: until then nothing new begins for their
	// services and the instances concerned.
	UnderWay []Replacement `json:"underWay"`
	Planned  []Move        `json:"planned"`
	// Violations are the rules broken now, Unrepaired those that no moves mend.
	Violations []string `json:"violations"`
	Unrepaired []string `json:"unrepaired"`
	// Exact reports that no cheaper moves mend as much; where it is false there may be such.
	Exact bool `json:"exact"`
	// Room is how the tasks that find no instance would get one.
	Room *Room `json:"room,omitempty"`
}

// Move is one task that changes its instance.
type Move struct {
	Task    string `json:"task"`
	Service string `json:"service"`
	From    string `json:"from"`
	To      string `json:"to"`
	Via     string `json:"via,omitempty"`
	Mode    string `json:"mode"`
	Cost    int    `json:"cost"`
	// After are the positions, from 0, of the moves that come before it.
	After []int  `json:"after,omitempty"`
	Why   string `json:"why"`
}

// Replacement is a task that takes another's place.
type Replacement struct {
	Service string `json:"service"`
	Task    string `json:"task"`
	From    string `json:"from"`
	By      string `json:"by"`
	To      string `json:"to"`
}

// Room is moves that let tasks run which fit nowhere as things stand.
type Room struct {
	Moves []Move `json:"moves"`
	// Places are instances for the tasks of the question once the moves are over, those that need
	// no move included.
	Places []string `json:"places"`
	// Exact reports that no cheaper moves make as much room; where it is false there may be such.
	Exact bool `json:"exact"`
	// Automatic reports that Berth makes these moves by itself: for a service, where a metric's
	// capacity is what lacks.
	Automatic bool `json:"automatic"`
}

// movesRequest are the services whose tasks may have to move.
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

// planMoves are those that would be made now.
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

func (m *model) convertMoves(moves []moves.Move) []Move {
	names := m.serviceNames()
	out := []Move{}
	for _, m := range moves {
		out = append(out, Move{m.Task, names[m.Owner], m.From, m.To, m.Via, string(m.Mode), m.Cost, m.After, m.Why})
	}
	return out
}

// serviceNames are the services' names by their short keys.
func (m *model) serviceNames() map[string]string {
	out := map[string]string{}
	for name, s := range m.snap.Services {
		out[s.Short] = name
	}
	return out
}

// describeViolations are the violations in words, each with the service whose rule it is where
// names has it.
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

// replacementsInProgress are the replacements that have yet to take over.
func (m *model) replacementsInProgress() []Replacement {
	out := []Replacement{}
	for t := range m.snap.Tasks() {
		if t.Replaces == "" || !t.IsActive() {
			continue
		}
		if old := m.snap.Task(t.Owner, t.Replaces); old != nil && old.HoldsCapacity() {
			out = append(out, Replacement{t.Service, old.ID, old.Instance, t.ID, t.Instance})
		}
	}
	slices.SortFunc(out, func(a, b Replacement) int {
		return slices.Compare([]string{a.Service, a.Task}, []string{b.Service, b.Task})
	})
	return out
}

// addRoomMoves finds the moves that let more of the tasks run.
func (m *model) addRoomMoves(a *Answer, q *Question, r placement.Request) error {
	ask, err := m.movesRequest()
	if err != nil {
		return err
	}
	plan := m.planner.MakeRoom(r, ask)
	if len(plan.Moves) == 0 || len(plan.Places) <= len(a.Placed) {
		return nil
	}
	lacking := slices.ContainsFunc(a.Diagnosis.Rejected,
		func(r berthapi.Rejection) bool { return r.Filter == string(cluster.FilterMetric) })
	a.Moves.Room = &Room{Moves: m.convertMoves(plan.Moves), Places: plan.Places, Exact: plan.Exact,
		Automatic: q.Service != "" && lacking}
	return nil
}
