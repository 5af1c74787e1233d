"""Two clerks sell what is in stock: each looks, writes the receipt, and then takes it out."""
import os
import sys
import threading

stock = 10
sold = []


def sell(clerk):
    global stock
    while stock > 0:
        os.write(receipts, b"%d: %d\n" % (clerk, stock))
        stock -= 1
        sold.append(clerk)


receipts = os.open(os.devnull, os.O_WRONLY)
clerks = [threading.Thread(target=sell, args=(clerk,)) for clerk in range(2)]
for clerk in clerks:
    clerk.start()
for clerk in clerks:
    clerk.join()
if len(sold) != 10:
    sys.exit("caught: more was sold than there was")
