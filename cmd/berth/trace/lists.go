package trace

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the task lists that are shipped compressed
	"fmt"
)

//go:embed openb_pod_list_gpuspec33.csv.gz
var gpuspec33Tasks []byte

//go:embed openb_pod_list_multigpu50.csv.gz
var multigpu50Tasks []byte

// TaskLists returns the names of the task lists that come with Berth. They are those of the paper:
// in gpuspec33 a third of the GPU tasks name GPU models, and multigpu50 has more tasks with several
// GPUs.
func TaskLists() []string { return []string{"default", "gpuspec33", "multigpu50"} }

// ReadTaskList reads a task list by its name, one of [TaskLists].
func ReadTaskList(name string) ([]Task, error) {
	packed := map[string][]byte{"gpuspec33": gpuspec33Tasks, "multigpu50": multigpu50Tasks}[name]
	switch {
	case name == "default":
		return DefaultTasks()
	case packed == nil:
		return nil, fmt.Errorf("no task list %q comes with Berth, only %q", name, TaskLists())
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("reading task list %s: %w", name, err)
	}
	return ReadTasks(r)
}
