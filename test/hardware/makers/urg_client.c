/* What the maker's C library reads from a scanner: one line for each question, "name value ...". Usage: client PORT */

#include "urg_sensor.h"
#include "urg_utils.h"

/* Later versions of the library ask whether sums may be wrong: SUMS is ", 0" there, and nothing before. */
#ifndef SUMS
#define SUMS
#endif

#include <stdio.h>
#include <stdlib.h>

enum { SCANS = 20, LONGEST = 2048 };

static long distances[LONGEST];

static void say(const char *name, int count) {
    printf("%s", name);
    for (int k = 0; k < count; ++k) printf(" %ld", distances[k]);
    printf("\n");
}

/* One scan that is asked for alone (GD), where the laser was off or on. */
static int single(urg_t *urg, const char *name) {
    long stamp = -1;
    if (urg_start_measurement(urg, URG_DISTANCE, 1, 0 SUMS) < 0) return -1;
    const int count = urg_get_distance(urg, distances, &stamp);
    if (count < 0) return -1;
    printf("%s_stamp %ld\n", name, stamp);
    say(name, count);
    return 0;
}

static int failed(urg_t *urg, const char *what) {
    fprintf(stderr, "%s: %s\n", what, urg_error(urg));
    urg_close(urg);
    return 1;
}

int main(int argc, char **argv) {
    urg_t urg;
    if (argc != 2) {
        fprintf(stderr, "usage: client PORT\n");
        return 2;
    }
    if (urg_open(&urg, URG_SERIAL, argv[1], 115200) < 0) {
        fprintf(stderr, "open: %s\n", urg_error(&urg));
        return 1;
    }
    int first, last;
    long least, most;
    urg_step_min_max(&urg, &first, &last);
    urg_distance_min_max(&urg, &least, &most);
    printf("steps %d %d\n", first, last);
    printf("range %ld %ld\n", least, most);
    printf("scan_usec %ld\n", urg_scan_usec(&urg));
    printf("longest %d\n", urg_max_data_size(&urg));
    printf("microradians_of_step_100 %.0f\n", 1e6 * urg_step2rad(&urg, 100));
    printf("product %s\n", urg_sensor_product_type(&urg));
    printf("serial %s\n", urg_sensor_serial_id(&urg));
    printf("stable %d\n", urg_is_stable(&urg));
    printf("status %s\n", urg_sensor_status(&urg));

    if (single(&urg, "single") < 0) return failed(&urg, "a single scan from a laser that was off");
    if (single(&urg, "again") < 0) return failed(&urg, "a second single scan");

    /* A stream of so many scans, every one. */
    long stamp, before = -1, shortest = -1, longest = -1;
    if (urg_start_measurement(&urg, URG_DISTANCE, SCANS, 0 SUMS) < 0) return failed(&urg, "start of a stream");
    for (int k = 0; k < SCANS; ++k) {
        const int count = urg_get_distance(&urg, distances, &stamp);
        if (count < 0) return failed(&urg, "a scan of a stream");
        if (k > 0) {
            const long step = stamp - before;
            if (shortest < 0 || step < shortest) shortest = step;
            if (step > longest) longest = step;
        }
        before = stamp;
        if (k == SCANS - 1) say("stream", count);
    }
    printf("stream_periods %ld %ld\n", shortest, longest);

    /* A part of the scan, several steps in one, every third scan, until it is stopped. */
    urg_set_scanning_parameter(&urg, -100, 99, 4);
    if (urg_start_measurement(&urg, URG_DISTANCE, URG_SCAN_INFINITY, 2 SUMS) < 0) return failed(&urg, "start of a part");
    before = -1;
    for (int k = 0; k < 4; ++k) {
        const int count = urg_get_distance(&urg, distances, &stamp);
        if (count < 0) return failed(&urg, "a scan of a part");
        if (k == 3) {
            printf("part_period %ld\n", stamp - before);
            say("part", count);
        }
        before = stamp;
    }
    if (urg_stop_measurement(&urg) < 0) return failed(&urg, "stop");

    if (urg_start_time_stamp_mode(&urg) < 0) return failed(&urg, "start of the time stamp mode");
    const long one = urg_time_stamp(&urg), two = urg_time_stamp(&urg);
    if (one < 0 || two < 0 || urg_stop_time_stamp_mode(&urg) < 0) return failed(&urg, "a time stamp");
    printf("time_stamps %ld %ld\n", one, two);
    if (urg_reboot(&urg) < 0) return failed(&urg, "reboot");
    printf("rebooted 1\n");
    urg_close(&urg);
    return 0;
}
