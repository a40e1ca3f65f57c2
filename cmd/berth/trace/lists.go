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

// TaskLists are the names of the task lists that come with Berth. They differ from the default one
// as the paper's do: gpuspec33 names GPU models for a third of the GPU tasks, multigpu50 has more
// tasks with several GPUs.
func TaskLists() []string { return []string{"default", "gpuspec33", "multigpu50"} }

// ReadTaskList reads the task list of that name, which must be one of [TaskLists].
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
