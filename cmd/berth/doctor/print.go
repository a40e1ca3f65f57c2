package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the report for people: a line for each check, with what is wrong below it.
func (r *Report) Print(w io.Writer) error {
	var out strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&out, "%-7s  %s: %s\n", c.Verdict, c.Name, c.Looked)
		for _, f := range c.Findings {
			mark := ""
			if f.Verdict != c.Verdict {
				mark = string(f.Verdict) + ": "
			}
			fmt.Fprintf(&out, "         - %s%s: %s\n", mark, f.Thing, f.Value)
			for _, line := range []struct{ before, text string }{
				{"expected: ", f.Expected}, {"", f.Remedy}, {"  ", f.Command}} {
				if line.text != "" {
					fmt.Fprintf(&out, "           %s%s\n", line.before, line.text)
				}
			}
		}
	}
	fmt.Fprintf(&out, "\n%s\n", r.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// Summary is one sentence: how many checks have which verdict.
func (r *Report) Summary() string {
	where := fmt.Sprintf("Stack %s in %s: ", r.Stack, r.Region)
	if r.Data != "" {
		where = fmt.Sprintf("Data folder %s: ", r.Data)
	}
	if r.Verdict == OK {
		return where + "all is well."
	}
	var parts []string
	for _, v := range []struct {
		verdict Verdict
		one     string
		many    string
	}{{Fail, "check fails", "checks fail"}, {Warn, "check warns", "checks warn"},
		{Unknown, "check is incomplete", "checks are incomplete"}, {OK, "check is well", "checks are well"}} {
		switch n := r.Count(v.verdict); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+v.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, v.many))
		}
	}
	return where + strings.Join(parts, ", ") + "."
}
