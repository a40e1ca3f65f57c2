package trace

import "testing"

// TestTaskLists checks that the shipped lists are what their names say.
func TestTaskLists(t *testing.T) {
	for name, want := range map[string]struct{ tasks, withModels, withMany int }{
		"default": {8152, 0, 75}, "gpuspec33": {8152, 2388, 75}, "multigpu50": {9061, 0, 984},
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := ReadTaskList(name)
			if err != nil {
				t.Fatal(err)
			}
			models, many := 0, 0
			for _, p := range pods {
				if len(p.Models) > 0 {
					models++
				}
				if p.GPUs > 1 {
					many++
				}
			}
			if len(pods) != want.tasks || models != want.withModels || many != want.withMany {
				t.Errorf("%d tasks, %d name models, %d need several GPUs; want %+v", len(pods), models, many, want)
			}
		})
	}
	t.Run("UnknownNameIsRefused", func(t *testing.T) {
		if _, err := ReadTaskList("gpuspec99"); err == nil {
			t.Error("no error")
		}
	})
}

func TestConstraint(t *testing.T) {
	for name, c := range map[string]struct {
		models []string
		want   string
	}{
		"AnyModel":       {nil, ""},
		"OneOfSeveral":   {[]string{"T4", "A10", "T4"}, "attribute:gpu-model in ['A10', 'T4']"},
		"QuoteInTheName": {[]string{"it's"}, `attribute:gpu-model in ["it's"]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := (&Task{Models: c.models}).ModelConstraint(); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
	t.Run("BothQuotesAreRefused", func(t *testing.T) {
		if got, err := (&Task{Models: []string{`'"`}}).ModelConstraint(); err == nil {
			t.Errorf("got %s", got)
		}
	})
}
