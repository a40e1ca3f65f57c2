package console

import (
	"cmp"
	"html/template"
	"maps"
	"slices"
	"time"

	"berth/cmd/berth/chart"
	"berth/shared/cluster"
)

// timelineMargin is the part of a timeline before its deployment began.
const timelineMargin = 20

// taskMemory is how long stopped tasks are known, unless the installation keeps them for longer.
const taskMemory = time.Hour

// newTimeline draws how many tasks of each revision have run since the service's deployment began,
// against what its percentages allow. It is empty once tasks that ran then are not known any more.
func newTimeline(v *view, s *cluster.Service) template.HTML {
	from, end := deploymentSpan(s, v.World.Now)
	if from.IsZero() || v.World.Now.Sub(from) > taskMemory || s.HasTaskSets() {
		return ""
	}
	least, most := s.TaskBounds(s.Desired)
	plot := chart.Plot{Title: "Tasks that run, by revision, since the deployment began", Whole: true,
		Levels: []chart.Level{{Name: "at least healthy", Y: float64(least)}, {Name: "at most", Y: float64(most)}},
		FormatX: func(x float64) string {
			return from.Add(time.Duration(x * float64(time.Second))).UTC().Format(time.TimeOnly)
		}}
	names := map[string]string{s.Deployment.ID: "PRIMARY, " + s.Deployment.TaskDefinition}
	for _, d := range s.Older {
		names[d.ID] = "ACTIVE, " + d.TaskDefinition
	}
	var all []*cluster.Task
	tasks := map[string][]*cluster.Task{}
	for _, t := range v.Snapshot.TasksOf(s.Short) {
		if id := cmp.Or(t.Revision, s.Deployment.ID); !t.Started.IsZero() {
			tasks[id], all = append(tasks[id], t), append(all, t)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		line := countRunning(tasks[id], from, end)
		line.Name = cmp.Or(names[id], "an earlier revision, "+tasks[id][0].TaskDefinition)
		plot.Lines = append(plot.Lines, line)
	}
	switch len(plot.Lines) {
	case 0:
		return ""
	case 1:
	default:
		total := countRunning(all, from, end)
		total.Name = "all"
		plot.Lines = append(plot.Lines, total)
	}
	return plot.Figure()
}

// deploymentSpan returns from shortly before the service's deployment began until shortly after it
// ended, or now.
func deploymentSpan(s *cluster.Service, now time.Time) (from, end time.Time) {
	began, end := s.Deployment.CreatedAt, now
	if r := s.Release; r != nil {
		began = r.CreatedAt
		if over := maxTime(r.FinishedAt, r.StoppedAt); r.Status.HasEnded() && !over.IsZero() {
			end = minTime(now, over.Add(max(time.Minute, over.Sub(began)/timelineMargin)))
		}
	}
	if began.IsZero() {
		return began, end
	}
	return began.Add(-max(time.Second, end.Sub(began)/timelineMargin)), end
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// countRunning returns how many of the tasks ran at each time between two, in seconds after the
// first.
func countRunning(tasks []*cluster.Task, from, end time.Time) chart.Line {
	change := map[float64]int{}
	at := func(t time.Time) float64 { return max(0, t.Sub(from).Seconds()) }
	for _, t := range tasks {
		if started := t.Started.Time(); started.Before(end) {
			change[at(started)]++
		}
		if stopped := t.Stopped.Time(); !t.Stopped.IsZero() && stopped.Before(end) {
			change[at(stopped)]--
		}
	}
	change[0] += 0
	change[at(end)] += 0
	out := chart.Line{Steps: true}
	count := 0
	for _, x := range slices.Sorted(maps.Keys(change)) {
		count += change[x]
		out.X, out.Y = append(out.X, x), append(out.Y, float64(count))
	}
	return out
}
