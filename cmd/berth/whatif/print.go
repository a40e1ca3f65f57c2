package whatif

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// printer writes lines. After an error it writes nothing more and keeps the error, so that only the
// end of a Print method needs to look at it.
type printer struct {
	w   io.Writer
	err error
}

// printLine writes one line.
func (p *printer) printLine(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// Print writes the answer for people: first where the tasks would go, then why.
func (a *Answer) Print(w io.Writer) error {
	p := &printer{w: w}
	if a.Tasks != "" {
		p.printAnswer(a)
	}
	if a.Moves != nil {
		p.printMoves(a.Moves, a.Count, a.Unplaced)
	}
	return p.err
}

// printAnswer writes where the tasks would go, why the first goes there, and why the rest goes
// nowhere.
func (p *printer) printAnswer(a *Answer) {
	where := describePlaces(a.Placed)
	switch {
	case a.Count == 1 && a.Unplaced == 0:
		p.printLine("A task %s would go to %s.", a.Tasks, where)
	case a.Unplaced == 0:
		p.printLine("%d tasks %s would go to %s.", a.Count, a.Tasks, where)
	case len(a.Placed) > 0:
		p.printLine("%d of %d tasks %s would find an instance: %s.", len(a.Placed), a.Count, a.Tasks, where)
	case a.Count == 1:
		p.printLine("A task %s would find no instance.", a.Tasks)
	default:
		p.printLine("None of %d tasks %s would find an instance.", a.Count, a.Tasks)
	}
	// The explanation is about the first task. With a single task, saying so would confuse.
	if len(a.Placed) != 1 && len(a.Placed) > 0 {
		p.printLine("  The first: %s", a.Explanation.Text)
	} else {
		p.printLine("  %s", a.Explanation.Text)
	}
	if a.Unplaced > 0 && len(a.Placed) > 0 {
		p.printLine("  The other %d: %s", a.Unplaced, a.Diagnosis.Text)
	}
	if a.Instance != nil {
		p.printLine("  %s", a.Instance.Text)
	}
}

// listed is the most instances that a line names.
const listed = 12

// describePlaces returns where tasks go, in the order in which the instances were chosen: "i-3 (2),
// i-7 (1)", or "i-3, GPU 0,1" for a single task.
func describePlaces(placed []Place) string {
	if len(placed) == 1 {
		if g := placed[0].GPUs; len(g) > 0 {
			return fmt.Sprintf("%s, GPU %s", placed[0].Instance,
				strings.Trim(strings.ReplaceAll(fmt.Sprint(g), " ", ","), "[]"))
		}
		return placed[0].Instance
	}
	var shares []Share
	at := map[string]int{}
	for _, t := range placed {
		n, known := at[t.Instance]
		if !known {
			n = len(shares)
			at[t.Instance] = n
			shares = append(shares, Share{Instance: t.Instance})
		}
		shares[n].Tasks++
	}
	return describeShares(shares)
}

// describeShares returns "i-3 (2), i-7 (1)", or "i-3, i-7" if each instance has one task.
func describeShares(shares []Share) string {
	single := !slices.ContainsFunc(shares, func(s Share) bool { return s.Tasks > 1 })
	var out []string
	for _, s := range shares[:min(len(shares), listed)] {
		text := s.Instance
		if !single {
			text += fmt.Sprintf(" (%d)", s.Tasks)
		}
		out = append(out, text)
	}
	text := strings.Join(out, ", ")
	if more := len(shares) - listed; more > 0 {
		n := 0
		for _, s := range shares[listed:] {
			n += s.Tasks
		}
		text += fmt.Sprintf(" and %d more instances", more)
		if !single {
			text += fmt.Sprintf(" (%d)", n)
		}
	}
	return text
}

// printMoves writes the moves in progress and planned, what stays broken, and how count tasks would
// get room. Without moves, unplaced of them find no instance.
func (p *printer) printMoves(m *Moves, count, unplaced int) {
	if len(m.UnderWay) > 0 {
		p.printLine("Moves in progress; until they are over, none starts for their services and instances:")
		p.printReplacements(m.UnderWay)
	}
	switch {
	case len(m.Planned) > 0:
		p.printLine("Moves that the cluster would make:")
		p.printPlanned(m.Planned)
		p.printInexact(m.Exact)
	case len(m.Violations) == 0:
		p.printLine("No task has to move: no rule is broken.")
	default:
		p.printLine("No set of moves fixes these violations.")
	}
	for _, v := range m.Unrepaired {
		p.printLine("  stays broken: %s", v)
	}
	r := m.Room
	if r == nil {
		if unplaced > 0 {
			p.printLine("No moves were found that make room. Berth moves only tasks of services under " +
				"domain or metric rules.")
		}
		return
	}
	by := "Berth makes these moves by itself"
	if !r.Automatic {
		by = "Berth does not make these moves by itself"
	}
	p.printLine("With these moves, %d of %d tasks would find an instance: %s. %s.", len(r.Places), count,
		describeInstances(r.Places), by)
	p.printPlanned(r.Moves)
	p.printInexact(r.Exact)
}

// printInexact warns that the search for moves covered only the neighborhood of each violation, or
// reached its limit.
func (p *printer) printInexact(exact bool) {
	if !exact {
		p.printLine("  The search was not complete: there may be cheaper moves.")
	}
}

// describeInstances describes instances that have one task for each time they are listed.
func describeInstances(instances []string) string {
	var placed []Place
	for _, id := range instances {
		placed = append(placed, Place{Instance: id})
	}
	return describePlaces(placed)
}

// printPlanned numbers the moves, because later ones may depend on earlier ones.
func (p *printer) printPlanned(moves []Move) {
	for n, m := range moves {
		to := m.To
		if m.Via != "" {
			to = m.Via + ", then " + to
		}
		after := ""
		if len(m.After) > 0 {
			var steps []string
			for _, at := range m.After {
				steps = append(steps, fmt.Sprint(at+1))
			}
			after = ", after " + strings.Join(steps, ", ")
		}
		p.printLine("  %d. task %s of %s: %s to %s (%s%s): %s", n+1, m.Task, m.Service, m.From, to, m.Mode, after,
			m.Why)
	}
}

// printReplacements writes the moves in progress.
func (p *printer) printReplacements(moves []Replacement) {
	for _, m := range moves {
		p.printLine("  task %s of %s on %s, by task %s on %s", m.Task, m.Service, m.From, m.By, m.To)
	}
}

// Print writes the answer for people.
func (a *TaskAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	name := "Task " + a.Task
	if a.Service != "" {
		name += " of service " + a.Service
	}
	switch {
	case a.Instance == "":
		p.printLine("%s is %s and has no instance.", name, a.Status)
	default:
		p.printLine("%s is %s on %s.", name, a.Status, describePlaces([]Place{{a.Instance, a.GPUs}}))
	}
	if a.Reason != "" {
		p.printLine("  %s", a.Reason)
	}
	if a.Foreign {
		p.printLine("  Somebody else started it there; Berth only counts what it uses.")
	}
	if a.Explanation != nil {
		p.printPlacedAnew(a)
	}
	if a.Replaces != "" {
		p.printLine("  It was started to replace task %s.", a.Replaces)
	}
	if a.ReplacedBy != "" {
		p.printLine("  Task %s was started to replace it.", a.ReplacedBy)
	}
	if a.Move != nil {
		p.printLine("It would be moved to %s (%s): %s", a.Move.To, a.Move.Mode, a.Move.Why)
	}
	return p.err
}

// printPlacedAnew writes where the task would go if it were placed now.
func (p *printer) printPlacedAnew(a *TaskAnswer) {
	best := a.Explanation.Best
	switch {
	case a.Instance == "" && best != nil:
		p.printLine("Now it would go to %s.", best.Instance)
	case a.Instance == "":
		p.printLine("Now no instance can take it.")
	case best == nil:
		p.printLine("If it were placed again, it would find no instance.")
	case a.Here != nil && a.Here.Chosen:
		p.printLine("If it were placed again, it would go to the same instance.")
	default:
		p.printLine("If it were placed again, it would go to %s.", best.Instance)
	}
	p.printLine("  %s", a.Explanation.Text)
	if a.Here != nil && !a.Here.Chosen {
		p.printLine("  %s", a.Here.Text)
	}
}

// Print writes the answer for people.
func (a *ServiceAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	p.printLine("Service %s (%s, %s, %s) wants %s: %d running, %d starting, %d without an instance.",
		a.Service, a.Strategy, a.Status, a.Definition, CountNoun(a.Desired, "task"), a.Running, a.Pending, a.Missing)
	if a.TaskSet != "" {
		p.printLine("  This is its task set %s.", a.TaskSet)
	}
	for _, r := range a.Revisions {
		p.printLine("  Deployment %s (%s, %s): %d running, %d starting.", r.Deployment, r.Status, r.Definition,
			r.Running, r.Pending)
	}
	if len(a.Instances) > 0 {
		p.printLine("  They are on %s.", describeShares(a.Instances))
	}
	if a.Decided != nil {
		p.printLine("  When placement last tried: %s", a.Decided.Text)
	}
	for _, x := range a.Scaling {
		p.printLine("Managed scaling (capacity provider %s, Auto Scaling group %s of %d): %s.", x.Provider, x.Group,
			x.Current, strings.TrimSuffix(x.Why, "."))
		for _, d := range x.Demands {
			p.printLine("  %s.", d)
		}
	}
	if a.Failed != "" {
		p.printLine("Its deployment has FAILED: it starts no missing tasks and replaces none that stop.")
		p.printLine("  %s", a.Failed)
		p.printLine("  To continue, deploy again: "+
			"aws ecs update-service --service %s with --task-definition of a revision "+
			"that works, or --force-new-deployment.", a.Service)
	}
	if r := a.RolledBack; r != nil {
		p.printLine("Its last deployment, %s, was rolled back (%s): %s", r.Deployment, r.Status, r.Why)
		if r.Task != "" {
			p.printLine("  Its task %s (%s) never ran: %s", r.Task, r.Definition, r.Reason)
		}
	}
	if a.HeldUntil != "" {
		p.printLine("  After failed starts, the next start is at %s.", a.HeldUntil)
	}
	if a.Now != nil {
		p.printLine("Now:")
		p.printAnswer(a.Now)
	}
	if len(a.UnderWay) > 0 {
		p.printLine("Moves in progress:")
		p.printReplacements(a.UnderWay)
	} else if a.Moving && len(a.Planned) == 0 {
		p.printLine("Moves wait until the service is steady.")
	}
	if len(a.Planned) > 0 {
		p.printLine("Planned moves:")
		p.printPlanned(a.Planned)
	}
	if a.Unrepaired != "" {
		p.printLine("No set of moves fixes this, as last decided: %s", a.Unrepaired)
	}
	if len(a.UnrepairedNow) > 0 && !slices.Equal(a.UnrepairedNow, []string{a.Unrepaired}) {
		p.printLine("No set of moves fixes this now: %s", strings.Join(a.UnrepairedNow, "; "))
	}
	return p.err
}
