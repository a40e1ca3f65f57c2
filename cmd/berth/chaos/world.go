package chaos

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"berth/cmd/berth/listing"
	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/sim/ecs"
)

// World is a cluster of the simulated AWS as it is, whether or not ECS knows.
type World struct {
	Instances []Instance `json:"instances"` // registered, in order of registration
	Tasks     []Task     `json:"tasks"`     // RUNNING, in order of start
}

// Instance is a container instance and its machine.
type Instance struct {
	ID         string           `json:"id"`
	EC2        string           `json:"ec2InstanceId"`
	Zone       string           `json:"availabilityZone"`
	Type       string           `json:"type"`
	State      ecs.MachineState `json:"state"`
	StartDelay int              `json:"startDelaySeconds"`
	Tasks      int              `json:"tasks"` // that run
}

// Task is a task that runs. Its id is Berth's if Berth has started it.
type Task struct {
	ID         string `json:"id"`
	ECS        string `json:"ecsId"`
	Instance   string `json:"instance"`
	Definition string `json:"taskDefinition"`
	// Checked reports a container health check, Failing that the task fails this or the checks of
	// its target groups.
	Checked bool `json:"healthCheck"`
	Failing bool `json:"failing"`
}

// describeTask names the task as Berth does, if it is Berth's.
func describeTask(t ecs.TaskTruth) Task {
	out := Task{ID: t.ID, ECS: t.ID, Instance: t.Instance, Definition: t.TaskDefinition, Checked: t.Checked,
		Failing: t.Failing}
	if short, _ := cluster.ParseStartedBy(t.StartedBy); short != "" {
		out.ID = cluster.TaskID(t.StartedBy, t.Instance)
	}
	return out
}

// Print writes the world as two tables.
func (w *World) Print(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INSTANCE\tEC2 INSTANCE\tZONE\tTYPE\tSTATE\tTASKS")
	for _, i := range w.Instances {
		state := string(i.State)
		if i.StartDelay > 0 {
			state += fmt.Sprintf(", starts take %d s longer", i.StartDelay)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\n", i.ID, i.EC2, i.Zone, i.Type, state, i.Tasks)
	}
	fmt.Fprintln(t, "\nTASK\tINSTANCE\tTASK DEFINITION\tHEALTH CHECKS")
	for _, task := range w.Tasks {
		health := "none in its containers"
		switch {
		case task.Failing:
			health = "fail"
		case task.Checked:
			health = "pass"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", task.ID, task.Instance, task.Definition, health)
	}
	return t.Flush()
}

// findInstance returns the instance with an id of ECS's or EC2's, or an ARN; nil if there is none.
func (w *World) findInstance(id string) *Instance {
	return findNamed(w.Instances, id, func(i *Instance) [2]string { return [2]string{i.ID, i.EC2} })
}

// findTask returns the running task with an id of ECS's or Berth's, or an ARN; nil if there is none.
func (w *World) findTask(id string) *Task {
	return findNamed(w.Tasks, id, func(t *Task) [2]string { return [2]string{t.ID, t.ECS} })
}

// findNamed returns the item with an id, or with the beginning of an id that is of one item only.
func findNamed[T any](items []T, id string, ids func(*T) [2]string) (short *T) {
	id = cluster.LastPart(id)
	matches := 0
	for n := range items {
		switch of := ids(&items[n]); {
		case slices.Contains(of[:], id):
			return &items[n]
		case listing.IsShortFor(id, of[0]) || listing.IsShortFor(id, of[1]):
			short, matches = &items[n], matches+1
		}
	}
	if matches > 1 {
		return nil
	}
	return short
}

// names returns the ids of the instances, ECS's and EC2's, or of the running tasks.
func (w *World) names(of Subject) (ids []string) {
	if of == TaskSubject {
		for _, t := range w.Tasks {
			ids = append(ids, t.ID)
		}
		return ids
	}
	for _, i := range w.Instances {
		ids = append(ids, i.ID, i.EC2)
	}
	return ids
}

// suggest continues an error about an id that is of nothing: with the names that begin with it, if there are
// several, or else with one that is like it.
func suggest(id string, names []string) string {
	const most = 3
	var longer []string
	for _, name := range names {
		if listing.IsShortFor(id, name) {
			longer = append(longer, name)
		}
	}
	switch {
	case len(longer) < 2:
		return choice.DidYouMean(id, names)
	case len(longer) > most:
		return fmt.Sprintf("; %d begin with it: %s, ...", len(longer), strings.Join(longer[:most], ", "))
	}
	return fmt.Sprintf("; %d begin with it: %s", len(longer), strings.Join(longer, ", "))
}

// busiestInstance returns the machine that runs with the most tasks, the first of equals, or nil.
func (w *World) busiestInstance() (busiest *Instance) {
	for n := range w.Instances {
		i := &w.Instances[n]
		if i.State == ecs.MachineRunning && (busiest == nil || i.Tasks > busiest.Tasks) {
			busiest = i
		}
	}
	return busiest
}

// busiestZone returns the zone whose machines have the most tasks, or "".
func (w *World) busiestZone() (zone string) {
	tasks := map[string]int{}
	for _, i := range w.Instances {
		tasks[i.Zone] += i.Tasks
		if zone == "" || cmp.Compare(tasks[i.Zone], tasks[zone]) > 0 {
			zone = i.Zone
		}
	}
	return zone
}
