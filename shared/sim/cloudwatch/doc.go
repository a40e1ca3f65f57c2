// Package cloudwatch simulates CloudWatch: the last datapoints of metrics, and alarms that watch
// them.
//
// An alarm is evaluated when a datapoint of its metric is published, and only then: time that
// passes without a datapoint changes no alarm.
package cloudwatch
