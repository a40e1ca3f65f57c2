package trace

import (
	"fmt"
	"slices"
	"strings"
)

// ModelAttribute is the instance attribute that names the model of a node's GPUs.
const ModelAttribute = "gpu-model"

// ModelConstraint returns an expression of the cluster query language that holds for instances with
// GPUs of one of the task's models, such as "attribute:gpu-model in ['A10', 'T4']". It is empty if
// any instance will do. A model name with both kinds of quotes is an error.
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
