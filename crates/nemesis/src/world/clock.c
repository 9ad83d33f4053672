/* Shows a process other times than the kernel's. CLOCK_AHEAD: by how many seconds the time of day
   is ahead. CLOCK_MILLIONTHS: by how many millionths all clocks run faster, from the start of the
   process on. CLOCK_JUMPS: a file with 8 bytes, the seconds by which the time of day is ahead at
   the moment. The clocks of processor time stay as they are. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOCKS = 12, SECOND = 1000000000, MILLION = 1000000 };

static long long ahead, millionths, beginning[CLOCKS];
static const volatile long long *jumps;

static const volatile long long *mapped(const char *path) {
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0)
    return NULL;
  void *map = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return map == MAP_FAILED ? NULL : map;
}

static long long true_time(clockid_t clock) {
  struct timespec time;
  if (syscall(SYS_clock_gettime, clock, &time) != 0)
    return -1;
  return (long long)time.tv_sec * SECOND + time.tv_nsec;
}

static long long number(const char *name) {
  const char *text = getenv(name);
  return text ? atoll(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
  ahead = number("CLOCK_AHEAD");
  millionths = number("CLOCK_MILLIONTHS");
  jumps = mapped(getenv("CLOCK_JUMPS"));
  for (clockid_t clock = 0; clock < CLOCKS; clock++)
    beginning[clock] = true_time(clock);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock < 0 || clock >= CLOCKS || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
    return (int)syscall(SYS_clock_gettime, clock, time);
  long long now = true_time(clock);
  if (now < 0)
    return (int)syscall(SYS_clock_gettime, clock, time);
  /* In one step, or a slow clock would go back at every millisecond; wide, because the product may be large. */
  now += (long long)((__int128)(now - beginning[clock]) * millionths / MILLION);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
    now += (ahead + (jumps ? *jumps : 0)) * SECOND;
  time->tv_sec = now / SECOND;
  time->tv_nsec = now % SECOND;
  return 0;
}
