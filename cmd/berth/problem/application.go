package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// applicationLimits names the limit of the configuration behind each filter of applications.
var applicationLimits = map[cluster.Filter]string{
	cluster.FilterApplicationNodes: "maximumNodes",
	cluster.FilterApplicationNode:  "maximumNodeCapacity",
	cluster.FilterApplicationTotal: "totalApplicationCapacity",
}

// describeLimits says which limits a service's application has reached, and whose tasks use them. If
// other services share what is used up, the command asks for fewer tasks of the largest one.
func describeLimits(f *finder, s *cluster.Service, d *cluster.Diagnosis) (text string, help []Help) {
	sharesLoad := false
	for _, r := range sortedRejections(d) {
		if limit := applicationLimits[r.Filter]; limit != "" {
			text += fmt.Sprintf(" Application %s has reached its %s: PutClusterConfiguration can raise it.",
				s.Rules.Application, limit)
			sharesLoad = sharesLoad || r.Filter != cluster.FilterApplicationNodes
		}
	}
	users := applicationUsers(f, s.Rules.Application)
	if text == "" || len(users) == 0 {
		return text, nil
	}
	var parts []string
	for _, u := range users[:min(len(users), listed)] {
		parts = append(parts, fmt.Sprintf("%s of service %s", whatif.CountNoun(u.tasks, "task"), u.service.Name))
	}
	text += fmt.Sprintf(" It has %s.", strings.Join(parts, ", "))
	at := slices.IndexFunc(users, func(u applicationUser) bool { return u.service != s && u.service.Desired > 0 })
	if at < 0 || !sharesLoad {
		return text, nil
	}
	other := users[at].service
	fewer := max(0, other.Desired-max(1, d.Unplaced))
	return text, []Help{{"Ask for fewer tasks of service " + other.Name + ", which shares the limit",
		f.aws("update-service --service %s --desired-count %d", other.Name, fewer)}}
}

// applicationUser is a service of an application, with how many tasks it has on instances.
type applicationUser struct {
	service *cluster.Service
	tasks   int
}

// applicationUsers returns the services that have tasks of an application, those with the most first.
func applicationUsers(f *finder, application string) (users []applicationUser) {
	for _, s := range f.in.Snapshot.Services {
		if s.Rules.Application != application {
			continue
		}
		u := applicationUser{service: s}
		for _, t := range f.in.Snapshot.TasksOf(s.Short) {
			if t.IsActive() && t.Instance != "" {
				u.tasks++
			}
		}
		if u.tasks > 0 {
			users = append(users, u)
		}
	}
	slices.SortFunc(users, func(a, b applicationUser) int {
		return cmp.Or(cmp.Compare(b.tasks, a.tasks), strings.Compare(a.service.Name, b.service.Name))
	})
	return users
}
