package problem

import (
	"fmt"
	"io"
	"time"

	"berth/cmd/berth/whatif"
)

// Report is what is wrong in a cluster, with its sizes.
type Report struct {
	Cluster   string    `json:"cluster"`
	At        time.Time `json:"at"`
	Instances int       `json:"instances"`
	Services  int       `json:"services"`
	Tasks     int       `json:"tasks"`
	Problems  []Problem `json:"problems"`
	// Unread says what could not be read; the problems that depend on it are missing.
	Unread string `json:"unread,omitempty"`
}

// NewReport finds the problems of a cluster and counts what it has.
func NewReport(in Input) *Report {
	r := &Report{Cluster: in.Cluster, At: in.Now.UTC().Truncate(time.Second), Problems: Find(in)}
	for _, v := range in.Snapshot.Instances {
		if v.Instance != nil && !v.IsDeregistered() {
			r.Instances++
		}
	}
	for t := range in.Snapshot.Tasks() {
		if t.IsActive() {
			r.Tasks++
		}
	}
	for _, s := range in.Snapshot.Services {
		if s.Status == "ACTIVE" {
			r.Services++
		}
	}
	return r
}

// Summary is one sentence: how many problems there are, in what.
func (r *Report) Summary() string {
	sizes := fmt.Sprintf("%s, %s, %s", whatif.CountNoun(r.Instances, "instance"),
		whatif.CountNoun(r.Services, "service"), whatif.CountNoun(r.Tasks, "task"))
	switch len(r.Problems) {
	case 0:
		return fmt.Sprintf("Nothing is wrong in cluster %s (%s).", r.Cluster, sizes)
	case 1:
		return fmt.Sprintf("1 problem in cluster %s (%s).", r.Cluster, sizes)
	}
	return fmt.Sprintf("%d problems in cluster %s (%s).", len(r.Problems), r.Cluster, sizes)
}

// Lasts says since when a problem lasts, and for how long at a time. It is empty if that is
// unknown.
func (p *Problem) Lasts(now time.Time) string {
	if p.Since == nil {
		return ""
	}
	lasts := shortDuration(now.Sub(*p.Since))
	if p.SinceEarlier {
		return fmt.Sprintf("since %s or earlier (at least %s)", formatTime(*p.Since), lasts)
	}
	return fmt.Sprintf("since %s (%s)", formatTime(*p.Since), lasts)
}

// shortDuration returns a duration in its largest two units: 2d3h, 5h10m, 4m, 12s.
func shortDuration(d time.Duration) string {
	d = max(0, d.Truncate(time.Second))
	switch days := int(d / (24 * time.Hour)); {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, int(d/time.Hour)%24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d/time.Hour), int(d/time.Minute)%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	}
	return fmt.Sprintf("%ds", int(d/time.Second))
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	return r.PrintStyled(w, Style{})
}

// Style has the terminal's codes for emphasis. The zero value has none.
type Style struct{ Bold, Alarm, Faint, End string }

// ANSI is the style of a terminal.
var ANSI = Style{Bold: "\x1b[1m", Alarm: "\x1b[1;31m", Faint: "\x1b[2m", End: "\x1b[0m"}

// PrintStyled writes the report in a style.
func (r *Report) PrintStyled(w io.Writer, s Style) error {
	head := s.Bold
	if len(r.Problems) > 0 {
		head = s.Alarm
	}
	if _, err := fmt.Fprintf(w, "%s%s%s\n", head, r.Summary(), s.End); err != nil {
		return err
	}
	for n := range r.Problems {
		p := &r.Problems[n]
		text := fmt.Sprintf("\n%d. %s%s%s\n", n+1, s.Bold, p.What, s.End)
		if p.Why != "" {
			text += "   " + p.Why + "\n"
		}
		if since := p.Lasts(r.At); since != "" {
			text += "   " + s.Faint + sentence(since) + s.End + "\n"
		}
		for _, h := range p.Help {
			text += fmt.Sprintf("   %s:\n     %s\n", h.What, h.Command)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	if r.Unread == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nNot known: %s\n", r.Unread)
	return err
}
