package handler

import "berth/shared/cluster"

// protect has the instances of these starts protected from scale-in that managed scaling has let go of (C6), and reports
// whether the starts may be made. A group that refuses is taking the instance already: the task is replaced with it.
func (d *drainer) protect(group []cluster.StartItem) bool {
	released := map[string][]string{}
	for _, s := range group {
		if s.ReleasedIn != "" && d.Groups != nil {
			released[s.ReleasedIn] = append(released[s.ReleasedIn], s.EC2InstanceID)
		}
	}
	for _, name := range sortedKeys(released) {
		err := d.Groups.SetInstanceProtection(d.ctx, name, released[name], true)
		if err == nil {
			continue
		}
		code := cluster.ErrorCode(err)
		logger(d.Log).Warn("protecting instances before tasks start there", "cluster", d.cluster, "group", name, "error", err)
		if code == cluster.CodeServer || code == cluster.CodeThrottling || code == cluster.CodeAccessDenied {
			return false
		}
	}
	return true
}
