package environment

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger of JSON lines with the names that Lambda reads, timestamp and level.
// level is Lambda's AWS_LAMBDA_LOG_LEVEL: TRACE, DEBUG, INFO, WARN, ERROR or FATAL. Any other text
// means INFO.
func NewLogger(w io.Writer, level string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: levels[level],
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
				a.Key = "timestamp"
			}
			return a
		},
	}))
}

var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "WARN": slog.LevelWarn, "ERROR": slog.LevelError,
	"FATAL": slog.LevelError,
}
