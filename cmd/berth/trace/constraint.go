package trace

import (
	"fmt"
	"slices"
	"strings"
)

// ModelAttribute is the instance attribute that names the model of a node's GPUs.
const ModelAttribute = "gpu-model"

// ModelConstraint is that the task's instance has GPUs of one of its models, as an expression of
// the cluster query language; empty where any will do. A model name that no quotes can hold is an
// error.
func (p *Task) ModelConstraint() (string, error) {
	if len(p.Models) == 0 {
		return "", nil
	}
	quoted := slices.Compact(slices.Sorted(slices.Values(p.Models)))
	for i, m := range quoted {
		switch {
		case !strings.Contains(m, "'"):
			quoted[i] = "'" + m + "'"
		case !strings.Contains(m, `"`):
			quoted[i] = `"` + m + `"`
		default:
			return "", fmt.Errorf("GPU model %.60q has both kinds of quotes, expected one at most", m)
		}
	}
	return "attribute:" + ModelAttribute + " in [" + strings.Join(quoted, ", ") + "]", nil
}
