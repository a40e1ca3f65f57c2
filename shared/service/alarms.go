package service

import (
	"time"

	"berth/shared/cluster"
)

// watchesAlarms reports whether alarms can fail the PRIMARY deployment. They cannot fail a
// rollback.
func watchesAlarms(s *cluster.Service) bool {
	rollback := s.Release != nil && s.Release.RollbackTo == s.Deployment.ID
	return s.Alarms.Enable && len(s.Alarms.Names) > 0 && !rollback
}

// alarmWatch returns what was observed of the PRIMARY deployment's alarms, nil if nothing was or it
// has none.
func alarmWatch(in *Input, next *cluster.Service) *cluster.AlarmWatch {
	if w := in.Alarms; w != nil && w.Deployment == next.Deployment.ID && watchesAlarms(next) {
		return w
	}
	return nil
}

// activeAlarms returns the alarms that fail the PRIMARY deployment: none if one was in ALARM when
// it began.
func activeAlarms(in *Input, next *cluster.Service) []string {
	if w := alarmWatch(in, next); w != nil && !w.Ignored {
		return w.InAlarm
	}
	return nil
}

// bakeUntil returns until when the alarms of a deployment have to be watched once it is fully
// rolled out. A time further ahead than the bake time was set by a clock that had jumped: the bake time begins
// again.
func bakeUntil(in *Input, next *cluster.Service, w *cluster.AlarmWatch) time.Time {
	until := next.Deployment.BakeUntil
	if until.IsZero() || until.Sub(in.Now) > w.Bake+cluster.MaxClockError {
		return in.Now.Add(w.Bake)
	}
	return until
}
