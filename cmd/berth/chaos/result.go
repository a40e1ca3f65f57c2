package chaos

import (
	"fmt"
	"io"
	"strings"
)

// Print says what was done.
func (r *Result) Print(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(r.sentences(), "\n")+"\n")
	return err
}

func (r *Result) sentences() (lines []string) {
	switch r.Kind {
	case Exit:
		return []string{fmt.Sprintf("Task %s (%s, on instance %s) exits with code %d.", r.Tasks[0].ID,
			r.Tasks[0].Definition, r.Tasks[0].Instance, *r.ExitCode)}
	case Unhealthy:
		return []string{fmt.Sprintf("The health checks of task %s (%s, on instance %s) fail from now on.",
			r.Tasks[0].ID,
			r.Tasks[0].Definition, r.Tasks[0].Instance)}
	case Heal:
		for _, i := range r.Instances {
			lines = append(lines, fmt.Sprintf("Instance %s (%s, %s) is as it was before.", i.ID, i.EC2, i.Zone))
		}
		for _, t := range r.Tasks {
			lines = append(lines, fmt.Sprintf("The health checks of task %s pass again.", t.ID))
		}
		if len(lines) == 0 {
			lines = []string{"Nothing is broken."}
		}
		return lines
	case ZoneOut:
		lines = append(lines, "Every machine of the cluster in "+r.Zone+" is terminated:")
	}
	for _, i := range r.Instances {
		tasks := fmt.Sprintf("%d tasks", i.Tasks)
		if i.Tasks == 1 {
			tasks = "1 task"
		}
		about := fmt.Sprintf("%s (%s, %s, %s)", i.ID, i.EC2, i.Zone, tasks)
		switch r.Kind {
		case Kill:
			lines = append(lines, "The machine of instance "+about+" is terminated.")
		case Disconnect:
			lines = append(lines, "The agent of instance "+about+" is disconnected; its tasks keep running.")
		case Crash:
			lines = append(lines, "The machine of instance "+about+" has crashed.")
		case Slow:
			lines = append(lines, fmt.Sprintf("Tasks take %d s longer to start on instance %s.", *r.Seconds, about))
		default:
			lines = append(lines, "  "+about)
		}
	}
	return lines
}
