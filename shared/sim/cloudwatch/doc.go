// Package cloudwatch simulates CloudWatch: the last datapoints of metrics, and alarms that watch
// them.
//
// [Service] is CloudWatch as Berth's functions call it; [Service.ServeOperation] answers the real
// protocol. Package autoscaling stores the alarms of its policies here and follows metrics
// ([Service.ObserveMetrics]). State changes of alarms go out as events. Alarms are stored,
// datapoints are not: after a restart a metric begins anew.
//
// An alarm is evaluated when a datapoint of its metric is published, and only then: time that
// passes without a datapoint changes no alarm. Real CloudWatch evaluates every minute; here it
// would make a timer of every alarm, and simulations of weeks slower.
//
// Start at publishSample in metric.go.
package cloudwatch
