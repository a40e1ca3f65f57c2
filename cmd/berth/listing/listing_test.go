package listing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/listing"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func services() listing.Table[listing.Service] {
	return listing.ServiceTable([]listing.Service{
		{Name: "web", Status: "ACTIVE", State: "steady", Desired: 3, Running: 3, Definition: "web:1",
			CreatedAt: now.Add(-2*time.Hour - 10*time.Minute)},
		{Name: "a\x1b[2Jb", Status: "ACTIVE", State: "blocked", Desired: 2, Definition: "a:1", CreatedAt: now},
	}, now)
}

func TestWrite(t *testing.T) {
	for name, c := range map[string]struct {
		options listing.Options
		want    string
	}{
		"Table": {listing.Options{Format: "table"}, `
NAME         STATE    RUNNING  PENDING  TASK DEFINITION  AGE
web          steady   3/3      0        web:1            2h10m
"a\x1b[2Jb"  blocked  0/2      0        a:1              0s
`},
		"Name": {listing.Options{Format: "name"}, "\nweb\na\x1b[2Jb\n"},
		"Colors": {listing.Options{Format: "table", Color: true}, "\n" +
			"NAME         STATE    RUNNING  PENDING  TASK DEFINITION  AGE\n" +
			"web          \x1b[34msteady\x1b[0m   3/3      0        web:1            2h10m\n" +
			"\"a\\x1b[2Jb\"  \x1b[1;31mblocked\x1b[0m  \x1b[33m0/2\x1b[0m      0        a:1              0s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := listing.Write(&out, services(), c.options); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want[1:], out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// JSON and YAML have the same names and values, and YAML keeps text that looks like something else.
func TestWriteDocuments(t *testing.T) {
	table := listing.ClusterTable([]listing.Cluster{{Name: "yes", Status: "ACTIVE", Instances: 2}})
	for format, want := range map[string]string{
		"json": `[
  {
    "clusterName": "yes",
    "status": "ACTIVE",
    "registeredContainerInstancesCount": 2,
    "runningTasksCount": 0,
    "pendingTasksCount": 0,
    "activeServicesCount": 0
  }
]
`,
		"yaml": `- clusterName: "yes"
  status: ACTIVE
  registeredContainerInstancesCount: 2
  runningTasksCount: 0
  pendingTasksCount: 0
  activeServicesCount: 0
`,
	} {
		var out strings.Builder
		if err := listing.Write(&out, table, listing.Options{Format: format}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

func TestShortID(t *testing.T) {
	for id, want := range map[string]string{
		"0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b": "0b9d6f2f5c1e4a7d", "short": "short", "": "",
	} {
		if got := listing.ShortID(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
