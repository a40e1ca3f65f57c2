package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func seconds(n int) *time.Duration {
	d := time.Duration(n) * time.Second
	return &d
}

func TestDefault(t *testing.T) {
	t.Run("NodesAreThoseOfThePaper", func(t *testing.T) {
		nodes, err := DefaultNodes()
		if err != nil {
			t.Fatal(err)
		}
		gpus, withGPU := 0, 0
		for _, n := range nodes {
			gpus += n.GPUs
			if n.GPUs > 0 {
				withGPU++
			}
		}
		if len(nodes) != 1523 || withGPU != 1213 || gpus != 6212 {
			t.Errorf("%d nodes, %d with GPUs, %d GPUs; want 1523, 1213, 6212", len(nodes), withGPU, gpus)
		}
		want := Node{Name: "openb-node-0000", CPUMilli: 32000, MemoryMiB: 262144}
		if diff := cmp.Diff(want, nodes[0]); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("TasksAreThoseOfThePaper", func(t *testing.T) {
		pods, err := DefaultTasks()
		if err != nil {
			t.Fatal(err)
		}
		shares, waiting := 0, 0
		for _, p := range pods {
			if p.GPUs == 1 && p.GPUMilli < 1000 {
				shares++
			}
			if p.Scheduled == nil {
				waiting++
			}
		}
		if len(pods) != 8152 || shares != 3078 || waiting != 897 {
			t.Errorf("%d tasks, %d with a share, %d never scheduled; want 8152, 3078, 897", len(pods), shares, waiting)
		}
		want := Task{
			Name: "openb-pod-0001", CPUMilli: 6000, MemoryMiB: 12288, GPUs: 1, GPUMilli: 460, QoS: "LS",
			Phase:   "Running",
			Created: seconds(427061), Deleted: seconds(12902960), Scheduled: seconds(427061),
		}
		if diff := cmp.Diff(want, pods[1]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReadTasks(t *testing.T) {
	t.Run("FindsColumnsByName", func(t *testing.T) {
		pods, err := ReadTasks(strings.NewReader(
			"\ufeffgpu_milli,extra,gpu_spec,num_gpu,memory_mib,cpu_milli,name\r\n1000,x,T4| G2,2,64,1500,a\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		want := []Task{{Name: "a", CPUMilli: 1500, MemoryMiB: 64, GPUs: 2, GPUMilli: 1000,
			Models: []string{"T4", "G2"}}}
		if diff := cmp.Diff(want, pods); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("KeepsValuesOfEarlierRows", func(t *testing.T) {
		pods, err := ReadTasks(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos\na,1,1,0,0,LS\nb,2,2,0,0,BE\n"))
		if err != nil {
			t.Fatal(err)
		}
		if pods[0].Name != "a" || pods[0].QoS != "LS" || pods[1].Name != "b" || pods[1].QoS != "BE" {
			t.Errorf("got %+v", pods)
		}
	})
}

func TestRefusals(t *testing.T) {
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
	const good = "a,1,1,0,0,5,6,5\n"
	for name, c := range map[string]struct{ in, want string }{
		"EmptyFile": {"",
			"no header: expected a line that names the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli"},
		"MissingColumn": {"name,cpu_milli,memory_mib,gpu_milli\n",
			"line 1: no column num_gpu; expected name, cpu_milli, memory_mib, num_gpu, gpu_milli"},
		"ColumnTwice": {"name,cpu_milli,name\n", `line 1, column 3: "name", expected each column once`},
		"NotANumber": {header + good + "b,x,1,0,0,,,\n",
			`line 3, column cpu_milli: "x", expected a whole number from 0 to 1000000000`},
		"Fraction": {header + "b,1.5,1,0,0,,,\n",
			`line 2, column cpu_milli: "1.5", expected a whole number from 0 to 1000000000`},
		"Negative": {header + "b,1,-1,0,0,,,\n",
			`line 2, column memory_mib: "-1", expected a whole number from 0 to 1000000000`},
		"Overflow": {header + "b,1,99999999999999999999,0,0,,,\n",
			`line 2, column memory_mib: "99999999999999999999", expected a whole number from 0 to 1000000000`},
		"NoValue": {header + "b,1,1,,0,,,\n",
			`line 2, column num_gpu: "", expected a whole number from 0 to 1024`},
		"NoName": {header + " ,1,1,0,0,,,\n", `line 2, column name: "", expected a name`},
		"NameTwice": {header + good + good,
			`line 3, column name: "a", expected a name of its own: line 2 has it`},
		"ShareAboveWhole": {header + "b,1,1,1,1001,,,\n",
			`line 2, column gpu_milli: "1001", expected a whole number from 0 to 1000`},
		"ShareOfNoGPU": {header + "b,1,1,0,500,,,\n",
			`line 2, column gpu_milli: "500", expected 0, as num_gpu is 0`},
		"GPUsWithoutPart": {header + "b,1,1,1,0,,,\n",
			`line 2, column gpu_milli: "0", expected 1 to 1000, as num_gpu is not 0`},
		"ShareOfMany": {header + "b,1,1,2,500,,,\n",
			`line 2, column gpu_milli: "500", expected 1000, as num_gpu is above 1: only one GPU can be shared`},
		"DeletedTooEarly": {header + "b,1,1,0,0,5,4,\n",
			`line 2, column deletion_time: "4", expected no earlier than creation_time`},
		"PlacedTooEarly": {header + "b,1,1,0,0,5,,4\n",
			`line 2, column scheduled_time: "4", expected no earlier than creation_time`},
		"ShortRow": {header + good + "b,1\n", "line 3: 2 values, expected 8 as in the header"},
		"OpenQuote": {header + "\"b,1,1,0,0,,,\n",
			`parse error on line 2, column 15: extraneous or missing " in quoted-field`},
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := ReadTasks(strings.NewReader(c.in))
			if err == nil {
				t.Fatalf("accepted as %+v", pods)
			}
			if got := strings.TrimPrefix(err.Error(), "reading tasks: "); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
	t.Run("ValueErrorCanBeTakenApart", func(t *testing.T) {
		_, err := ReadNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu\nn,1,1,many\n"))
		var value *ValueError
		if !errors.As(err, &value) || value.Line != 2 || value.Column != "gpu" || value.Value != "many" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("TooManyRows", func(t *testing.T) {
		nodes, err := ReadNodes(io.MultiReader(strings.NewReader("sn,cpu_milli,memory_mib,gpu\n"), &rows{}))
		if err == nil || !strings.HasSuffix(err.Error(), "more than 1000000 rows") {
			t.Errorf("%d nodes, error %v", len(nodes), err)
		}
	})
	t.Run("TooManyBytes", func(t *testing.T) {
		b := &bounded{r: strings.NewReader("abc"), left: 3}
		if got, err := io.ReadAll(b); err == nil || string(got) != "abc" {
			t.Errorf("read %q, error %v", got, err)
		}
	})
}

// rows reads as an endless list of nodes.
type rows struct{ n int }

func (r *rows) Read(p []byte) (int, error) {
	r.n++
	return copy(p, fmt.Sprintf("n%d,1,1,0\n", r.n)), nil
}

func FuzzReadTasks(f *testing.F) {
	f.Add([]byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,500\n"))
	f.Add([]byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\na,1,2,1,500,T4|G2,0,9\n"))
	f.Add([]byte("\"name\",cpu_milli\n\"a\nb\",1\n"))
	f.Add(defaultTasks[:2000])
	f.Fuzz(func(t *testing.T, in []byte) {
		pods, err := ReadTasks(bytes.NewReader(in))
		if err != nil {
			if pods != nil {
				t.Error("both tasks and an error")
			}
			return
		}
		seen := map[string]bool{}
		for _, p := range pods {
			if p.Name == "" || seen[p.Name] {
				t.Errorf("name %q empty or twice", p.Name)
			}
			seen[p.Name] = true
			if p.CPUMilli < 0 || p.MemoryMiB < 0 || p.GPUs < 0 || (p.GPUs == 0) != (p.GPUMilli == 0) ||
				p.GPUMilli > 1000 {
				t.Errorf("out of range: %+v", p)
			}
			if isBefore(p.Deleted, p.Created) {
				t.Errorf("deleted before created: %+v", p)
			}
		}
	})
}
